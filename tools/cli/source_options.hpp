// Options for tasks of others (env/task/find_tasks.hpp), the same in every command that takes
// tasks.
#pragma once

#include <CLI/CLI.hpp>

#include "env/task/task_source.hpp"

namespace quern::tools {

/// --kernelbench and --precision.
void add_source_options(CLI::App& app, env::source_options& options);

}  // namespace quern::tools
