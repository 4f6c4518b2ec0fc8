// What the processes of a run plan to hold in memory, and whether it fits where they will be: known
// from the model's shape, before anything starts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/config/run_config.hpp"
#include "base/status.hpp"
#include "policy/weights/memory_plan.hpp"

namespace quern::actors {

/// Bytes of a machine.
struct machine_memory {
  std::int64_t host = 0;
  bool driver = false;                       ///< it has GPUs
  std::vector<std::int64_t> gpus = {};       ///< by number; none: their sizes are not known
  std::string shared_place = {};             ///< where files of weights go
  std::optional<std::uint64_t> shared = {};  ///< bytes free there; none: not known
};

/// Of this machine. Its GPUs are asked only where the policy is to compute on one.
machine_memory memory_here(const run_config& config);

/// For policy::plan_generator, with as many sequences as would decode together.
policy::generator_demand generator_demand_of(const run_config& config,
                                             const policy::model_config& model);

/// Whether the learner's ranks and the generator that are on `machine`, this one, fit into its GPUs
/// and, as far as they learn or write checkpoints, its host memory. What is on another host or on a
/// GPU of unknown size is left to the process there. Errors: exhausted, with the keys to change; as
/// placement_of and learner_devices.
base::status check_memory(const run_config& config, const policy::model_config& model,
                          const machine_memory& machine);

/// The plan in lines that begin with "# ": learner, its checkpoints, generator.
std::string describe_memory(const run_config& config, const policy::model_config& model,
                            const machine_memory& machine);

/// What several learner.threads on a GPU are; empty: there are none.
std::string warning_of_threads(const run_config& config, const machine_memory& machine);

}  // namespace quern::actors
