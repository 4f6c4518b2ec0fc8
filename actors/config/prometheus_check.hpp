// observe.prometheus: where the numbers of a run are served.
#pragma once

#include <string>

#include "actors/config/run_config.hpp"
#include "base/endpoint.hpp"
#include "base/status.hpp"

namespace quern::actors {

/// observe.prometheus as an address; a host that it does not name is 127.0.0.1, a port 9464. Error:
/// invalid_argument, with key, value and what is allowed.
base::expected<base::listen_address> prometheus_address(const std::string& value);

/// Whether observe.prometheus, if it is set, names an address where this machine can listen now.
/// Error: invalid_argument, with key, value and what to do.
base::status check_prometheus(const run_config& config);

}  // namespace quern::actors
