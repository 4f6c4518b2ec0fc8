// `quern tasks check`: the checks of the lanes, on task files, suites and tasks of others.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "env/task/task_source.hpp"

namespace quern::tools {

struct check_options {
  bool sandbox_required = true;
  /// Tasks that can be judged on a core or a GPU are checked on this one, those of lanes on a GPU,
  /// too; none: on a core, and on GPU 0.
  std::optional<int> gpu;
  /// Of one task whose reference is a module: wall seconds, and memory of a process of its.
  double task_seconds = 600;
  std::int64_t task_gib = 8;
  bool best_effort = false;  ///< a task that is refused or skipped is no failure of the command
};

/// Checks what `paths` name, and prints a line a task and one a finding; at the end, how many are
/// as they should be, and which are not and why. The command's exit code: a task that is refused,
/// or skipped since this machine cannot check it, is a failure.
int check_tasks(const std::vector<std::string>& paths, const check_options& how,
                const env::source_options& from);

}  // namespace quern::tools
