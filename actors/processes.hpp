// Which processes a run consists of, how each is started, and the limits that they are held to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/config/run_config.hpp"
#include "actors/gateway.hpp"
#include "actors/supervisor.hpp"
#include "base/status.hpp"
#include "storage/run_directory.hpp"

namespace quern::actors {

/// `workers` are roles of quern-torch that connect to `port` on this host (a learner: one process a
/// rank); evaluator hosts connect to `gateway`. Error: a program that is not beside this one.
base::expected<std::vector<process_plan>> plan_processes(const run_config& config,
                                                         const storage::run_paths& paths,
                                                         std::uint16_t port,
                                                         const std::string& gateway,
                                                         const std::vector<std::string>& workers);

/// The gateway to this machine's hosts, with the configuration's times.
gateway_options local_gateway(const run_config& config, const std::string& hosts_socket,
                              epoch_id epoch);

/// `actors.restarts` within `actors.restart_window_s`.
restart_limits restart_limits_of(const run_config& config);

}  // namespace quern::actors
