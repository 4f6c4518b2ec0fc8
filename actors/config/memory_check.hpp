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
  std::int64_t host = 0;                     ///< that this process may have
  bool driver = false;                       ///< it has GPUs
  std::vector<std::int64_t> gpus = {};       ///< by number; none: their sizes are not known
  std::string shared_place = {};             ///< where files of weights go
  std::optional<std::uint64_t> shared = {};  ///< bytes free there; none: not known
  std::string host_limit = {};  ///< file of the control group that sets `host`; empty: none does
};

/// Of this machine. Its GPUs are asked only where the policy is to compute on one.
machine_memory memory_here(const run_config& config);

/// For policy::plan_generator, with as many sequences as would decode together.
policy::generator_demand generator_demand_of(const run_config& config,
                                             const policy::model_config& model);

/// "24.0 GiB of host memory", and whose limit that is.
std::string show_host(const machine_memory& machine);

/// Whether the learner's ranks and the generator that are on `machine`, this one, fit into its GPUs
/// and its host memory: each role alone, then the sum of all that they hold there at most (roles
/// on the CPU, a checkpoint on its way, new weights in files or on their way to a GPU). What is on
/// another host or on a GPU of unknown size is left to the process there. Errors: exhausted, with
/// the keys to change; as placement_of and learner_devices.
base::status check_memory(const run_config& config, const policy::model_config& model,
                          const machine_memory& machine);

/// The plan in lines that begin with "# ": learner, its checkpoints, generator, and the sum of what
/// this machine's own memory has to hold.
std::string describe_memory(const run_config& config, const policy::model_config& model,
                            const machine_memory& machine);

/// What several learner.threads on a GPU are; empty: there are none.
std::string warning_of_threads(const run_config& config, const machine_memory& machine);

}  // namespace quern::actors
