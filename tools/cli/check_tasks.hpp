// `quern tasks check`: the checks of the lanes, on task files, suites and tasks of others.
#pragma once

#include <string>
#include <vector>

#include "env/task/task_source.hpp"

namespace quern::tools {

/// Checks what `paths` name, on GPU `gpu` where a lane uses one, and prints a line a task and one a
/// finding. The command's exit code: a task that is refused is a failure.
int check_tasks(const std::vector<std::string>& paths, bool sandbox_required, int gpu,
                const env::source_options& from);

}  // namespace quern::tools
