// What the configuration says of the learner's ranks: their GPUs, what each will hold, and how
// weights leave them.
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

/// Whether weights go to generators over links (policy/engine/weight_link.hpp) and not through
/// shared memory. Errors: actors.weights asks for links that cannot be; as learner_devices.
base::expected<bool> weights_by_link(const run_config& config);

/// For policy::plan_learner, at the largest batch that the run can make.
policy::learner_demand learner_demand_of(const run_config& config);

}  // namespace quern::actors
