// Which roles a run consists of, on which hosts, how each process is started, and the limits that
// they are held to.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actors/config/placement.hpp"
#include "actors/config/run_config.hpp"
#include "actors/decide/restart_policy.hpp"
#include "actors/gateway.hpp"
#include "actors/role.hpp"
#include "base/status.hpp"
#include "storage/run_directory.hpp"

namespace quern::actors {

/// The hosts of a run, with their addresses in numbers; "" is this machine.
struct run_hosts {
  placement where;
  std::map<std::string, std::string> addresses;

  /// What control listens on: the loopback where nothing lives elsewhere.
  [[nodiscard]] const std::string& control() const { return addresses.at(""); }
};

/// Asks the resolver. Errors: as placement_of and addresses_of.
base::expected<run_hosts> hosts_of_run(const run_config& config);

/// What the processes of a run need to find it.
struct run_admission {
  std::uint16_t port = 0;              ///< of control's node
  std::vector<std::string> endpoints;  ///< of the gateway, as gateway_of wants them, with ports
  std::string gateway_key;             ///< public; for evaluators on other hosts
  std::string secret;                  ///< of reception: written to the input of each worker
};

/// The roles of a run that learns or compares: `workers` are those of quern-torch that connect to
/// control ("learner": one process a rank; "generator"); evaluator hosts connect to the gateway.
/// Error: a program that is not beside this one.
base::expected<std::vector<role>> plan_roles(const run_config& config, const run_hosts& hosts,
                                             const storage::run_paths& paths,
                                             const run_admission& admission,
                                             const std::vector<std::string>& workers);

/// Where evaluator hosts connect: those of this machine over ipc://, which is the first endpoint;
/// others with keys at env.bind; those that the run starts elsewhere with keys of the run's folder
/// at the last endpoint, a free port of cluster.address. Errors: keys that cannot be read or made.
base::expected<gateway_options> gateway_of(const run_config& config, const run_hosts& hosts,
                                           const storage::run_paths& paths,
                                           const std::string& hosts_socket,
                                           incarnation_id incarnation);

/// What a gateway of these options has opened; port and secret are the caller's.
run_admission admission_of(const gateway_options& opened, std::vector<std::string> endpoints);

/// `actors.restarts` within `actors.restart_window_s`.
restart_limits restart_limits_of(const run_config& config);

}  // namespace quern::actors
