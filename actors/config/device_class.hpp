// What a run measures on.
#pragma once

#include <string>
#include <vector>

#include "actors/config/run_config.hpp"
#include "base/status.hpp"
#include "env/task/lane.hpp"

namespace quern::actors {

/// env.lane, which check_config has seen to be one.
const env::lane& lane_of(const run_config& config);

/// env.gpus as numbers. Error: invalid_argument, naming key and value.
base::expected<std::vector<int>> gpus_of(const run_config& config);

/// The device class that the run's times, scores and prompts are of: of this machine's processor
/// (lanes on a core); env.device_class or that of the first GPU of env.gpus (lanes on a GPU).
/// Error: unavailable where that GPU is not there, saying what to do.
base::expected<std::string> device_class_of(const run_config& config);

}  // namespace quern::actors
