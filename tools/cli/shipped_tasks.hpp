// Tasks that come with Quern, by their names.
#pragma once

#include <string>

#include "base/status.hpp"
#include "env/task/task_source.hpp"

namespace quern::tools {

/// For env::find_task: of a shipped task's name its file; a file or a task of others as it is.
/// "SUITE/NAME" where several suites have a task of the name. Errors: not_found, naming what there
/// is; invalid_argument, naming the suites to choose from.
base::expected<std::string> resolve_task(const std::string& word,
                                         const env::source_options& options);

}  // namespace quern::tools
