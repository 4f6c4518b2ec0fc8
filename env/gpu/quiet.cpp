// Who may disturb a device.
#include "env/gpu/quiet.hpp"

#include <cerrno>
#include <chrono>

#include <sys/file.h>

#include "env/judge/host_lock.hpp"

namespace quern::env {
namespace {

/// By word: a child that is being cloned has the descriptor, too, until it begins its program, and
/// with it the lock.
void give_up(base::unique_fd& lock) {
  if (lock) (void)flock(lock.get(), LOCK_UN);
  lock.reset();
}

}  // namespace

std::optional<base::unique_fd> device_quiet::take(int how) const {
  if (lock_.empty()) return base::unique_fd();
  auto file = open_host_lock(lock_);
  if (!file) return base::unique_fd();
  while (flock(file->get(), how) != 0)
    if (errno != EINTR) {
      if (errno == EWOULDBLOCK) return std::nullopt;
      break;
    }
  return std::move(*file);
}

device_quiet::hold::hold(device_quiet& of) : of_(of) {
  {
    std::unique_lock lock(of_.guard_);
    ++of_.holds_;
    of_.changed_.wait(lock, [&] { return of_.disturbing_ == 0; });
    for (interruptible* one : of_.interruptibles_)
      one->stand_still();
  }
  among_all_ = std::move(*of_.take(LOCK_EX));
}

device_quiet::hold::~hold() {
  give_up(among_all_);
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
    if (auto mine = of_.take(LOCK_SH | LOCK_NB)) {
      among_all_ = std::move(*mine);
      break;
    }
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
  give_up(among_all_);
  std::erase(of_.interruptibles_, this);
  ++of_.epoch_;
  of_.changed_.notify_all();
}

void device_quiet::interruptible::stand_still() {
  if (still_) return;
  stand_(true);
  still_ = true;
  give_up(among_all_);
  ++of_.epoch_;
}

void device_quiet::interruptible::go_on() {
  if (!still_) return;
  auto mine = of_.take(LOCK_SH | LOCK_NB);
  if (!mine) return;
  among_all_ = std::move(*mine);
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
  among_all_ = std::move(*of_.take(LOCK_SH));
}

device_quiet::disturbance::~disturbance() {
  give_up(among_all_);
  const std::lock_guard lock(of_.guard_);
  --of_.disturbing_;
  ++of_.epoch_;
  of_.changed_.notify_all();
}

}  // namespace quern::env
