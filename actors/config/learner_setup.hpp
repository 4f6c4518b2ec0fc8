// What the configuration says of the learner's ranks: their GPUs, what each will hold, and how
// weights leave them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/config/run_config.hpp"
#include "base/status.hpp"
#include "policy/weights/memory_plan.hpp"

namespace quern::actors {

/// By rank, numbers of the rank's own host: learner.devices, or 0, 1, ... on each host where that
/// is empty. Errors: a list that is none, or is not of learner.ranks; as placement_of.
base::expected<std::vector<std::int64_t>> learner_devices(const run_config& config);

/// NCCL's in-fabric reductions need a service that shared hosts may lack.
inline constexpr const char* without_nvls = "NCCL_NVLS_ENABLE=0";

/// What lets a process see one GPU of `host` alone. On this machine ("") numbers count within
/// CUDA_VISIBLE_DEVICES, if that is set. Error: it has no such GPU.
base::expected<std::string> only_gpu(std::int64_t number, const std::string& host);

/// GPUs that roles on this machine are to have, where `there` are here, numbered from 0. Error: one
/// that is not, with the key that names it.
base::status check_gpu_numbers(const run_config& config, std::int64_t there);

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
