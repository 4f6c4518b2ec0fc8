// Processes that are of no more use.
#include "env/gpu/process_reaper.hpp"

namespace quern::env {

gpu_process_reaper::gpu_process_reaper(device_quiet& quiet)
    : quiet_(quiet), ender_([this] { work(); }) {}

gpu_process_reaper::~gpu_process_reaper() {
  {
    const std::lock_guard lock(guard_);
    stop_ = true;
  }
  changed_.notify_all();
  ender_.join();
}

void gpu_process_reaper::add(std::unique_ptr<gpu_runner_process> process) {
  if (!process) return;
  auto noise = std::make_unique<device_quiet::disturbance>(quiet_);
  {
    const std::lock_guard lock(guard_);
    queue_.push_back({std::move(process), std::move(noise)});
  }
  changed_.notify_all();
}

void gpu_process_reaper::wait() {
  std::unique_lock lock(guard_);
  changed_.wait(lock, [&] { return queue_.empty() && !busy_; });
}

void gpu_process_reaper::work() {
  std::unique_lock lock(guard_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || !queue_.empty(); });
    if (queue_.empty()) return;
    auto one = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    one.process.reset();  // kills and reaps
    one.noise.reset();
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace quern::env
