// `quern tasks check` of tasks whose reference is a module: runs it, sandboxed, and says what it
// is.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "env/judge/evaluator_options.hpp"
#include "env/lanes/pytorch/process/module_sheet.hpp"
#include "env/task/task_check.hpp"

namespace quern::env {

/// What the module is, a line each.
std::vector<std::string> facts_of(const module_sheet& sheet, const task_instance& at);

/// On a core. Error: no Python with torch, or no sandbox where one is required.
base::expected<std::unique_ptr<task_checker>> open_module_checker(const evaluator_options& options);

}  // namespace quern::env
