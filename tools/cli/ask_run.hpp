// Questions and orders to the control process of a run.
#pragma once

#include <string>

#include "base/json.hpp"
#include "base/status.hpp"
#include "storage/run_directory.hpp"

namespace quern::tools {

/// The answer to {"command": COMMAND}. Errors: unavailable, no process holds the run; those of
/// `read_meta` and of the connection.
base::expected<base::json> ask_run(const storage::run_paths& paths, const std::string& command);

}  // namespace quern::tools
