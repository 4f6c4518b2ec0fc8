// What the configuration says of the learner: its formula, the GPUs of its ranks, what each will
// hold, and how weights leave them.
#pragma once

#include <cstdint>
#include <vector>

#include "actors/config/run_config.hpp"
#include "base/status.hpp"
#include "policy/loss/preset.hpp"
#include "policy/weights/memory_plan.hpp"

namespace quern::actors {

/// The formula that the configuration asks for; check_config has seen to it that it is one.
policy::loss_parameters loss_parameters_of(const run_config& config);

/// That this formula is one (policy::check). Errors name the key.
base::status check_loss(const run_config& config);

/// By rank, numbers of the rank's own host: learner.devices, or 0, 1, ... on each host where that
/// is empty; none in stage search. Errors: a list that is none, or is not of learner.ranks; as
/// placement_of.
base::expected<std::vector<std::int64_t>> learner_devices(const run_config& config);

/// Whether weights go to generators over links (policy/engine/weight_link.hpp) and not through
/// shared memory, which is that of control's machine: whatever lives on another one has links.
/// Errors: actors.weights asks for links, or for memory, that cannot be; a link is needed and
/// cannot be (devices of two kinds, one GPU); as learner_devices.
base::expected<bool> weights_by_link(const run_config& config);

/// Bytes that a rank of the learner plans to have of the generator's GPU, which it shares; 0: none
/// does. Errors: as learner_devices.
base::expected<std::int64_t> learner_bytes_beside_generator(const run_config& config,
                                                            const policy::model_config& model);

/// For policy::plan_learner, at the largest batch that the run can make.
policy::learner_demand learner_demand_of(const run_config& config);

}  // namespace quern::actors
