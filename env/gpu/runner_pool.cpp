// Runner processes with their contexts made ahead.
#include "env/gpu/runner_pool.hpp"

namespace quern::env {

gpu_runner_pool::gpu_runner_pool(spawner& children, gpu_runner_start how, std::size_t ahead,
                                 device_quiet& quiet, gpu_parts* parts)
    : children_(children),
      how_(std::move(how)),
      ahead_(ahead),
      quiet_(quiet),
      parts_(parts),
      maker_([this] { work(); }) {}

gpu_runner_pool::~gpu_runner_pool() {
  {
    const std::lock_guard lock(guard_);
    stop_ = true;
  }
  wanted_.notify_all();
  maker_.join();
}

std::size_t gpu_runner_pool::ready() const {
  const std::lock_guard lock(guard_);
  return ready_.size();
}

base::expected<std::unique_ptr<gpu_runner_process>> gpu_runner_pool::take() {
  std::unique_lock lock(guard_);
  ++waiting_;
  failed_.reset();
  wanted_.notify_all();
  made_.wait(lock, [&] { return !ready_.empty() || failed_; });
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
  std::optional<device_quiet::disturbance> noise;
  {
    const part_clock clock(parts_, gpu_part::pool_wait);
    noise.emplace(quiet_);
  }
  const part_clock clock(parts_, gpu_part::pool_context);
  QUERN_CHECK(made->open());
  return made;
}

void gpu_runner_pool::work() {
  std::unique_lock lock(guard_);
  for (;;) {
    // After a failure only somebody who waits makes it try again.
    wanted_.wait(lock, [&] {
      return stop_ || ready_.size() < static_cast<std::size_t>(waiting_) ||
             (ready_.size() < ahead_ && !failed_);
    });
    if (stop_) return;
    lock.unlock();
    auto started = make();
    lock.lock();
    if (started)
      ready_.push_back(std::move(*started));
    else
      failed_ = started.error();
    made_.notify_all();
    if (!started) wanted_.wait(lock, [&] { return stop_ || waiting_ == 0 || !failed_; });
  }
}

}  // namespace quern::env
