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

device_quiet::hold::hold(device_quiet& of) : of_(of) {
  {
    std::unique_lock lock(of_.guard_);
    ++of_.holds_;
    of_.changed_.wait(lock, [&] { return of_.disturbing_ == 0; });
    for (interruptible* one : of_.interruptibles_)
      one->stand_still();
  }
  among_all_ = of_.take(device_lock::share::alone);
}

device_quiet::hold::~hold() {
  of_.give_up(among_all_);
  const std::lock_guard lock(of_.guard_);
  if (--of_.holds_ == 0)
    for (interruptible* one : of_.interruptibles_)
      one->go_on();
  of_.changed_.notify_all();
}

device_quiet::interruptible::interruptible(device_quiet& of, std::function<void(bool)> stand)
    : of_(of), stand_(std::move(stand)) {
  constexpr auto step = std::chrono::milliseconds(5);
  std::unique_lock lock(of_.guard_);
  for (;;) {
    of_.changed_.wait(lock, [&] { return of_.holds_ == 0; });
    // With the guard held it must not wait for another evaluator: a hold here would wait for both.
    if (of_.try_take_shared(among_all_)) break;
    of_.changed_.wait_for(lock, step);
  }
  ++of_.epoch_;
  ++of_.begun_;
  of_.interruptibles_.push_back(this);
}

device_quiet::interruptible::~interruptible() {
  std::unique_lock lock(of_.guard_);
  of_.changed_.wait(lock, [&] { return !still_ || of_.holds_ == 0; });
  if (still_) stand_(false);
  of_.give_up(among_all_);
  std::erase(of_.interruptibles_, this);
  ++of_.epoch_;
  of_.changed_.notify_all();
}

void device_quiet::interruptible::stand_still() {
  if (still_) return;
  stand_(true);
  still_ = true;
  of_.give_up(among_all_);
  ++of_.epoch_;
}

void device_quiet::interruptible::go_on() {
  if (!still_) return;
  if (!of_.try_take_shared(among_all_)) return;
  still_ = false;
  ++of_.epoch_;
  stand_(false);
}

void device_quiet::let_go_on() {
  const std::lock_guard lock(guard_);
  if (holds_ == 0)
    for (interruptible* one : interruptibles_)
      one->go_on();
}

device_quiet::disturbance::disturbance(device_quiet& of) : of_(of) {
  {
    std::unique_lock lock(of_.guard_);
    of_.changed_.wait(lock, [&] { return of_.holds_ == 0; });
    ++of_.disturbing_;
    ++of_.epoch_;
    ++of_.begun_;
  }
  among_all_ = of_.take(device_lock::share::with_others);
}

device_quiet::disturbance::~disturbance() {
  of_.give_up(among_all_);
  const std::lock_guard lock(of_.guard_);
  --of_.disturbing_;
  ++of_.epoch_;
  of_.changed_.notify_all();
}

}  // namespace quern::env
