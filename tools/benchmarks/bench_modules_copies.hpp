// What the evaluator's copies between two calls cost a process on the same GPU.
#pragma once

#include "base/status.hpp"
#include "env/sandbox/child.hpp"

namespace quern::tools {

/// Measures what a small launch of another process takes behind each kind of work of an evaluator,
/// and that work. Prints medians of so many turns, in us. True: behind the copies that windows use
/// the launch is at most 30 us later, and behind all others, the control, it is more.
base::expected<bool> bench_copies(env::sandbox_mode mode, int gpu, int turns);

}  // namespace quern::tools
