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

/// Whether the run's candidates are measured on GPUs: by its lane, or because env.device says so.
bool on_gpus(const run_config& config);

/// env.device with env.lane. Error: invalid_argument: a lane of cores alone, on GPUs.
base::status check_device_of_lane(const run_config& config);

/// Whether this machine has GPUs at all, where candidates are measured on GPUs of this machine.
/// Error: unavailable, saying what to do.
base::status check_gpus_here(const run_config& config);

/// env.gpus as numbers. Error: invalid_argument, naming key and value.
base::expected<std::vector<int>> gpus_of(const run_config& config);

/// The device class that the run's times, scores and prompts are of: of this machine's processor
/// (on a core); env.device_class or that of the first GPU of env.gpus (on GPUs). Error: unavailable
/// where that GPU is not there, saying what to do.
base::expected<std::string> device_class_of(const run_config& config);

/// What prompts name in its place where no such device is here.
std::string usual_device_class(const run_config& config);

}  // namespace quern::actors
