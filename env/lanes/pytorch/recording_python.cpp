// A warm Python without a device.
#include "env/lanes/pytorch/recording_python.hpp"

namespace quern::env {

recording_python::recording_python(sandbox_mode mode)
    : mode_(mode), keeper_([this](const std::stop_token& over) { keep(over); }) {}

recording_python::~recording_python() {
  keeper_.request_stop();
  keeper_.join();
}

void recording_python::keep(const std::stop_token& over) {
  std::unique_lock lock(guard_);
  while (changed_.wait(lock, over, [&] { return wanted_; })) {
    lock.unlock();
    auto started = python_zygote::start(mode_, warm_up::without_memory);
    lock.lock();
    if (started)
      zygote_.emplace(std::move(*started));
    else
      failed_ = started.error();
    wanted_ = false;
    changed_.notify_all();
  }
}

void recording_python::warm_up() {
  const std::lock_guard lock(guard_);
  if (zygote_) return;
  wanted_ = true;
  changed_.notify_all();
}

base::expected<python_zygote*> recording_python::standing(std::unique_lock<std::mutex>& lock) {
  if (!zygote_) {
    failed_.reset();
    wanted_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return zygote_ || failed_; });
  }
  if (!zygote_) return tl::make_unexpected(*failed_);
  return &*zygote_;
}

base::expected<python_child> recording_python::fork(const python_start& how) {
  std::unique_lock lock(guard_);
  QUERN_TRY(auto* zygote, standing(lock));
  auto child = zygote->fork(how);
  if (child) return child;
  zygote_.reset();
  QUERN_TRY(zygote, standing(lock));
  return zygote->fork(how);
}

}  // namespace quern::env
