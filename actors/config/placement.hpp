// On which hosts the roles of a run live. A host is a name that this machine resolves and that
// cluster.launch understands; no name, or cluster.address, is this machine, where control is.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actors/config/run_config.hpp"
#include "base/status.hpp"

namespace quern::actors {

/// Hosts by name; "" is this machine.
struct placement {
  std::vector<std::string> ranks;  ///< by rank of the learner; none in stage search
  std::string generator;
  std::vector<std::string> evaluators;  ///< by number, those that the run starts

  /// Every host but this machine, each once, in the order of roles.
  [[nodiscard]] std::vector<std::string> others() const;
  [[nodiscard]] bool spread() const { return !others().empty(); }
  /// Ranks on the host of this one, itself included.
  [[nodiscard]] std::int64_t ranks_beside(std::int64_t rank) const;
  /// Whether rank 0 lives on the host of this one.
  [[nodiscard]] bool beside_first(std::int64_t rank) const;
};

/// Stage sft is all here, whatever is named. Errors: a list that is not of learner.ranks, a
/// name that is none, a host without cluster.launch or cluster.address.
base::expected<placement> placement_of(const run_config& config);

/// The GPUs of `host` that evaluators of the run measure on; none where that is cores. Errors: as
/// gpus_of and placement_of.
base::expected<std::vector<int>> measuring_gpus(const run_config& config, const std::string& host);

/// The GPU of an evaluator that measures on one: those of one host take the GPUs of env.gpus in
/// turn. `number` is below env.evaluators.
base::expected<int> gpu_of_evaluator(const run_config& config, std::int64_t number);

/// Addresses in numbers, by host; that of "" is control's, 127.0.0.1 where nothing is elsewhere.
/// Asks the resolver of this machine. Errors: a name that has no address; one that is a loopback
/// here though others are not, or stands for all addresses, which nobody else would reach; two
/// names of one host; addresses of IPv4 and IPv6 in one run.
base::expected<std::map<std::string, std::string>> addresses_of(const run_config& config,
                                                                const placement& where);

/// The same for given answers of the resolver, by name; "" stands for cluster.address.
base::status check_addresses(const run_config& config,
                             const std::map<std::string, std::string>& addresses);

}  // namespace quern::actors
