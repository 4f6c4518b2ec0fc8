// Runner processes with their contexts made ahead.
#include "env/gpu/runner_pool.hpp"

#include <chrono>

namespace quern::env {

gpu_runner_pool::gpu_runner_pool(spawner& children, gpu_runner_start how, gpu_pool_options options,
                                 device_quiet& quiet, gpu_parts* parts)
    : children_(children),
      how_(std::move(how)),
      options_(std::move(options)),
      quiet_(quiet),
      parts_(parts) {
  for (std::size_t i = 0; i < options_.makers; ++i)
    makers_.emplace_back([this] { work(); });
}

gpu_runner_pool::~gpu_runner_pool() {
  {
    const std::lock_guard lock(guard_);
    stop_ = true;
  }
  wanted_.notify_all();
  quiet_.let_go_on();
  for (auto& maker : makers_)
    maker.join();
}

std::size_t gpu_runner_pool::ready() const {
  const std::lock_guard lock(guard_);
  return ready_.size();
}

base::expected<std::unique_ptr<gpu_runner_process>> gpu_runner_pool::take() {
  constexpr auto step = std::chrono::milliseconds(5);
  std::unique_lock lock(guard_);
  ++waiting_;
  // Those in making may fail for what was so before: a candidate that had taken all memory.
  for (std::size_t tries = 1 + in_making_; tries > 0; --tries) {
    failed_.reset();
    wanted_.notify_all();
    // What was stopped may have to be let go on more than once: another evaluator measures, too.
    while (!made_.wait_for(lock, step, [&] { return !ready_.empty() || failed_; }))
      quiet_.let_go_on();
    if (!ready_.empty()) break;
  }
  --waiting_;
  if (ready_.empty()) return tl::make_unexpected(*failed_);
  auto process = std::move(ready_.front());
  ready_.pop_front();
  wanted_.notify_all();
  return process;
}

base::expected<std::unique_ptr<gpu_runner_process>> gpu_runner_pool::make() {
  std::unique_ptr<gpu_runner_process> made;
  {
    const part_clock clock(parts_, gpu_part::pool_spawn);
    QUERN_TRY(made, gpu_runner_process::start(children_, how_));
  }
  // Two at once would only hold each other up in the driver.
  std::unique_lock turn(contexts_, std::defer_lock);
  std::optional<device_quiet::interruptible> noise;
  {
    const part_clock clock(parts_, gpu_part::pool_wait);
    turn.lock();
    noise.emplace(quiet_, [process = made.get()](bool still) { process->stand(still); });
  }
  {
    const part_clock clock(parts_, gpu_part::pool_context);
    QUERN_CHECK(made->open());
  }
  if (options_.prepare) {
    const part_clock clock(parts_, gpu_part::pool_map);
    QUERN_CHECK(options_.prepare(*made));
  }
  noise.reset();
  return made;
}

void gpu_runner_pool::work() {
  std::unique_lock lock(guard_);
  for (;;) {
    // After a failure only somebody who waits makes it try again.
    wanted_.wait(lock, [&] {
      const std::size_t coming = ready_.size() + in_making_;
      return stop_ || coming < waiting_ || (coming < options_.ahead && !failed_);
    });
    if (stop_) return;
    ++in_making_;
    lock.unlock();
    auto started = make();
    lock.lock();
    --in_making_;
    if (started)
      ready_.push_back(std::move(*started));
    else
      failed_ = started.error();
    made_.notify_all();
    if (!started) wanted_.wait(lock, [&] { return stop_ || waiting_ == 0 || !failed_; });
  }
}

}  // namespace quern::env
