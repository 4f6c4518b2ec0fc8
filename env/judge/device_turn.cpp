// Two locks: the one that waits for the device keeps the place behind it.
#include "env/judge/device_turn.hpp"

#include <sys/file.h>

#include "env/judge/host_lock.hpp"

namespace quern::env {

base::expected<device_turn> device_turn::open(const std::string& bus_id) {
  QUERN_TRY(auto busy, open_device_lock(bus_id));
  QUERN_TRY(auto queue, open_host_lock(fmt::format("gpu-{}.queue", bus_id)));
  return device_turn(std::move(busy), std::move(queue));
}

bool device_turn::wait(double seconds, const base::clock& clock) {
  const base::nanoseconds_t deadline =
      clock.now_ns() + static_cast<base::nanoseconds_t>(seconds * 1e9);
  if (!wait_for_host_lock(queue_, deadline, clock)) return false;
  held_ = wait_for_host_lock(busy_, deadline, clock);
  flock(queue_.get(), LOCK_UN);
  return held_;
}

bool device_turn::try_take() {
  if (!try_host_lock(queue_)) return false;
  held_ = try_host_lock(busy_);
  flock(queue_.get(), LOCK_UN);
  return held_;
}

void device_turn::give_back() {
  if (held_) flock(busy_.get(), LOCK_UN);
  held_ = false;
}

}  // namespace quern::env
