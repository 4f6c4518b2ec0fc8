// What this machine can know of a run's hosts before the run begins.
#pragma once

#include <string>

#include "actors/config/run_config.hpp"
#include "base/status.hpp"

namespace quern::actors {

/// That the launch command is there, the hosts have addresses, and control can listen on its own.
/// Asks no other host. Errors name key, value and what to do.
base::status check_cluster(const run_config& config);

/// Where each process will live, a line each that begins with "# "; empty where all are here. Names
/// that cannot be resolved stand without an address.
std::string describe_hosts(const run_config& config);

}  // namespace quern::actors
