// Threads whose end is waited for with an eye on the clock.
#include "env/plugin/worker_threads.hpp"

#include <optional>
#include <utility>

namespace quern::env {
namespace {

constexpr auto between_calls = std::chrono::milliseconds(20);

}  // namespace

void worker_threads::start(std::function<void()> body) {
  {
    const std::lock_guard lock(mutex_);
    ++running_;
  }
  threads_.emplace_back([this, work = std::move(body)] {
    work();
    const std::lock_guard lock(mutex_);
    --running_;
    changed_.notify_all();
  });
}

void worker_threads::join(const ending_rules& rules) {
  std::unique_lock lock(mutex_);
  const auto all_ended = [&] { return running_ == 0; };
  const base::steady_clock clock;
  std::optional<base::nanoseconds_t> begin;  // since they were hastened first
  bool given_up = !rules.give_up;
  // Most end by themselves, at once.
  while (rules.hasten && !changed_.wait_for(lock, between_calls, all_ended)) {
    lock.unlock();
    rules.hasten();
    const base::nanoseconds_t now = clock.now_ns();
    if (!begin) begin = now;
    if (!given_up && now - *begin >= rules.longest_ns) {
      given_up = true;
      rules.give_up();
    }
    lock.lock();
  }
  lock.unlock();
  for (std::thread& one : threads_)
    one.join();
  threads_.clear();
}

}  // namespace quern::env
