// Who may disturb a device.
#include "env/gpu/quiet.hpp"

#include <cerrno>

#include <sys/file.h>

#include "env/judge/host_lock.hpp"

namespace quern::env {

base::unique_fd device_quiet::take(int how) const {
  if (lock_.empty()) return {};
  auto file = open_host_lock(lock_);
  if (!file) return {};
  while (flock(file->get(), how) != 0 && errno == EINTR) {
  }
  return std::move(*file);
}

device_quiet::hold::hold(device_quiet& of) : of_(of) {
  {
    std::unique_lock lock(of_.guard_);
    ++of_.holds_;
    of_.changed_.wait(lock, [&] { return of_.disturbing_ == 0; });
  }
  among_all_ = of_.take(LOCK_EX);
}

device_quiet::hold::~hold() {
  among_all_.reset();
  const std::lock_guard lock(of_.guard_);
  --of_.holds_;
  of_.changed_.notify_all();
}

device_quiet::disturbance::disturbance(device_quiet& of) : of_(of) {
  {
    std::unique_lock lock(of_.guard_);
    of_.changed_.wait(lock, [&] { return of_.holds_ == 0; });
    ++of_.disturbing_;
    ++of_.epoch_;
  }
  among_all_ = of_.take(LOCK_SH);
}

device_quiet::disturbance::~disturbance() {
  among_all_.reset();
  const std::lock_guard lock(of_.guard_);
  --of_.disturbing_;
  ++of_.epoch_;
  of_.changed_.notify_all();
}

}  // namespace quern::env
