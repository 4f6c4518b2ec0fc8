// The ranks of a learner, from the inside of one of them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/config/run_config.hpp"
#include "actors/workers/own_address.hpp"
#include "base/status.hpp"
#include "policy/collectives/communicator.hpp"
#include "policy/engine/sequence.hpp"

namespace quern::actors {

/// Both are null for a learner of one rank. The meeting outlives the communicator.
struct rank_group {
  std::shared_ptr<policy::meeting> link;
  std::unique_ptr<policy::communicator> ranks;
};

/// Meets the other ranks at `address` (policy::meeting_place); Gloo on a CPU, NCCL on GPUs. From
/// then on the group counts as busy: only a step itself is held to moving on. Errors: unavailable,
/// naming the rank that is missing.
base::expected<rank_group> join_ranks(const std::string& address, const run_config& config,
                                      std::int32_t rank, const own_address& here,
                                      at::Device device);

/// What this rank computes of a batch that all ranks have.
std::vector<policy::training_sequence> share_of_rank(std::vector<policy::training_sequence> all,
                                                     const policy::communicator& group);

/// Whether an error is that of another rank: this one must start anew, the run goes on.
bool group_failed(const base::error& problem, const run_config& config);

/// Another rank failed: says so and ends this process at once with defaults::group_failed_code,
/// whatever its threads are in; who started it starts all ranks again from the last checkpoint.
[[noreturn]] void leave_group(const base::error& problem);

}  // namespace quern::actors
