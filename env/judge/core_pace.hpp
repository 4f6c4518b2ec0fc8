// How fast the calling thread's core is at this moment, and whether another hardware thread of it
// is busy.
#pragma once

#include <span>

#include "base/clock.hpp"

namespace quern::env {

/// What a fixed piece of arithmetic takes on the calling thread's core, in ns: some 1,500, and up
/// to twice as much while another hardware thread of that core is busy, in this machine or in one
/// that shares its processors. It is short of the core's width alone and touches no memory, so what
/// ran there before does not change it. Takes some 2 us. Thread-safe.
base::nanoseconds_t core_pace_ns();

/// Share of these times that are longer than a core of its own makes them: more than 1.25 times the
/// least that this process has seen on any core. 0 for none.
double shared_part(std::span<const base::nanoseconds_t> paces);

}  // namespace quern::env
