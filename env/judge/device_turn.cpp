// Two locks: the one that waits for the device keeps the place behind it.
#include "env/judge/device_turn.hpp"

#include "base/thread_deadline.hpp"
#include "env/sandbox/gpu_access.hpp"

namespace quern::env {

base::expected<device_turn> device_turn::open(const std::string& bus_id) {
  return open(bus_id, gpu_device_node(bus_id));
}

base::expected<device_turn> device_turn::open(const std::string& bus_id,
                                              const std::filesystem::path& node) {
  QUERN_TRY(auto busy, device_lock::open(bus_id, device_lock::use::busy, node));
  QUERN_TRY(auto queue, device_lock::open(bus_id, device_lock::use::queue, node));
  return device_turn(std::move(busy), std::move(queue));
}

bool device_turn::wait(double seconds, const base::clock& clock) {
  seconds = base::thread_deadline::at_most(seconds);
  const base::nanoseconds_t deadline =
      clock.now_ns() + static_cast<base::nanoseconds_t>(seconds * 1e9);
  if (!queue_.take_before(deadline, clock)) return false;
  held_ = busy_.take_before(deadline, clock);
  queue_.give_back();
  return held_;
}

bool device_turn::try_take() {
  if (!queue_.try_take()) return false;
  held_ = busy_.try_take();
  queue_.give_back();
  return held_;
}

void device_turn::give_back() {
  if (held_) busy_.give_back();
  held_ = false;
}

}  // namespace quern::env
