// How many samples a run may have under way at once, and what of them waits where.
#pragma once

#include <cstdint>
#include <string>

#include "actors/config/run_config.hpp"

namespace quern::actors {

/// Samples that are issued and not yet used by a step: (S + 1) P G with S = actors.staleness,
/// P = algorithm.groups_per_step, G = algorithm.group_size. A resumed run may begin with more.
std::int64_t samples_under_way(const run_config& config);

/// The same in a line that begins with "# ", with the number that the dispatcher takes at once
/// (defaults::evaluation_queue) where the window holds more.
std::string describe_window(const run_config& config);

}  // namespace quern::actors
