// What the configuration says of the learner's ranks: their GPUs, and what each will hold.
#pragma once

#include <cstdint>
#include <vector>

#include "actors/config/run_config.hpp"
#include "base/status.hpp"
#include "policy/weights/memory_plan.hpp"

namespace quern::actors {

/// By rank: learner.devices, or 0, 1, ... where that is empty. Errors: a list that is none, or is
/// not of learner.ranks.
base::expected<std::vector<std::int64_t>> learner_devices(const run_config& config);

/// For policy::plan_learner, at the largest batch that the run can make.
policy::learner_demand learner_demand_of(const run_config& config);

}  // namespace quern::actors
