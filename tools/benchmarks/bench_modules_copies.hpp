// What the evaluator's copies between two calls cost a process on the same GPU.
#pragma once

#include "base/status.hpp"
#include "env/sandbox/child.hpp"

namespace quern::tools {

/// Prints, for each way in which an evaluator may ask the device for something between two small
/// launches of another process, what it takes and what the next launch takes behind it: medians of
/// so many turns. Whether the copies that windows use delay that launch by 30 us at most, and the
/// control, a copy within the device, by more.
base::expected<bool> bench_copies(env::sandbox_mode mode, int gpu, int turns);

}  // namespace quern::tools
