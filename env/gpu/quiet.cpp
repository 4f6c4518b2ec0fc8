// Who may disturb a device.
#include "env/gpu/quiet.hpp"

#include <chrono>

#include "env/sandbox/gpu_access.hpp"

namespace quern::env {

device_quiet::device_quiet(const std::string& bus_id)
    : device_quiet(bus_id, bus_id.empty() ? "" : gpu_device_node(bus_id)) {}

device_quiet::grip device_quiet::open_lock() {
  if (bus_id_.empty()) return std::nullopt;
  {
    const std::lock_guard lock(spare_guard_);
    if (!spare_.empty()) {
      grip known(std::move(spare_.back()));
      spare_.pop_back();
      return known;
    }
  }
  auto opened = device_lock::open(bus_id_, device_lock::use::quiet, node_);
  if (!opened) return std::nullopt;
  return std::move(*opened);
}

device_quiet::grip device_quiet::take(device_lock::share how) {
  grip lock = open_lock();
  if (lock) lock->take(how);
  return lock;
}

bool device_quiet::try_take_shared(grip& to) {
  grip lock = open_lock();
  const bool free = !lock || lock->try_take(device_lock::share::with_others);
  if (free) {
    to = std::move(lock);
  } else {
    give_up(lock);
  }
  return free;
}

void device_quiet::give_up(grip& lock) {
  if (!lock) return;
  lock->give_back();
  const std::lock_guard guard(spare_guard_);
  spare_.push_back(std::move(*lock));
  lock.reset();
}

device_quiet::hold::hold(device_quiet& of) : quiet_(of) {
  {
    std::unique_lock lock(quiet_.guard_);
    ++quiet_.holds_;
    quiet_.changed_.wait(lock, [&] { return quiet_.disturbing_ == 0; });
    for (interruptible* one : quiet_.interruptibles_)
      one->pause();
  }
  among_all_ = quiet_.take(device_lock::share::alone);
}

device_quiet::hold::~hold() {
  quiet_.give_up(among_all_);
  const std::lock_guard lock(quiet_.guard_);
  if (--quiet_.holds_ == 0)
    for (interruptible* one : quiet_.interruptibles_)
      one->resume();
  quiet_.changed_.notify_all();
}

device_quiet::interruptible::interruptible(device_quiet& of, std::function<void(bool)> set_paused)
    : quiet_(of), set_paused_(std::move(set_paused)) {
  constexpr auto step = std::chrono::milliseconds(5);
  std::unique_lock lock(quiet_.guard_);
  for (;;) {
    quiet_.changed_.wait(lock, [&] { return quiet_.holds_ == 0; });
    // With the guard held it must not wait for another evaluator: a hold here would wait for both.
    if (quiet_.try_take_shared(among_all_)) break;
    quiet_.changed_.wait_for(lock, step);
  }
  ++quiet_.epoch_;
  ++quiet_.begun_;
  quiet_.interruptibles_.push_back(this);
}

device_quiet::interruptible::~interruptible() {
  std::unique_lock lock(quiet_.guard_);
  quiet_.changed_.wait(lock, [&] { return !paused_ || quiet_.holds_ == 0; });
  if (paused_) set_paused_(false);
  quiet_.give_up(among_all_);
  std::erase(quiet_.interruptibles_, this);
  ++quiet_.epoch_;
  quiet_.changed_.notify_all();
}

void device_quiet::interruptible::pause() {
  if (paused_) return;
  set_paused_(true);
  paused_ = true;
  quiet_.give_up(among_all_);
  ++quiet_.epoch_;
}

void device_quiet::interruptible::resume() {
  if (!paused_) return;
  if (!quiet_.try_take_shared(among_all_)) return;
  paused_ = false;
  ++quiet_.epoch_;
  set_paused_(false);
}

void device_quiet::let_go_on() {
  const std::lock_guard lock(guard_);
  if (holds_ == 0)
    for (interruptible* one : interruptibles_)
      one->resume();
}

device_quiet::disturbance::disturbance(device_quiet& of) : quiet_(of) {
  {
    std::unique_lock lock(quiet_.guard_);
    quiet_.changed_.wait(lock, [&] { return quiet_.holds_ == 0; });
    ++quiet_.disturbing_;
    ++quiet_.epoch_;
    ++quiet_.begun_;
  }
  among_all_ = quiet_.take(device_lock::share::with_others);
}

device_quiet::disturbance::~disturbance() {
  quiet_.give_up(among_all_);
  const std::lock_guard lock(quiet_.guard_);
  --quiet_.disturbing_;
  ++quiet_.epoch_;
  quiet_.changed_.notify_all();
}

}  // namespace quern::env
