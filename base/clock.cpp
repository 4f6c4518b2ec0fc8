#include "base/clock.hpp"

#include <ctime>

namespace quern::base {
namespace {

nanoseconds_t read(clockid_t id) {
  timespec time{};
  clock_gettime(id, &time);
  return static_cast<nanoseconds_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

nanoseconds_t steady_clock::now_ns() const {
  return read(CLOCK_MONOTONIC);
}

nanoseconds_t unix_time_ns() {
  return read(CLOCK_REALTIME);
}

}  // namespace quern::base
