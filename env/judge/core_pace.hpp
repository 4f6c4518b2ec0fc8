// How fast the calling thread's core is at this moment, and whether another hardware thread of it
// is busy.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "base/clock.hpp"

namespace quern::env {

/// What a fixed piece of arithmetic takes on the calling thread's core, in ns: 1,500 to 1,800 on
/// processors of today, and up to twice as much while another hardware thread of that core is busy,
/// in this machine or in one that shares its processors. It is short of the core's width alone and
/// touches no memory, so that caches do not matter to it; the clock rate does. Thread-safe.
base::nanoseconds_t core_pace_ns();

/// What looks at a core: core_pace_ns(), and in tests what says as it is told.
using core_look = std::function<base::nanoseconds_t()>;

/// How many of these looks say that the core is shared: they took more than 1.25 times the least
/// that this process saw on any core in the last 30 to 60 s.
std::size_t shared_looks(std::span<const base::nanoseconds_t> paces);

}  // namespace quern::env
