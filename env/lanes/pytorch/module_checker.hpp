// `quern tasks check` of tasks whose reference is a module: runs it, sandboxed, and says what it
// is.
#pragma once

#include <memory>

#include "base/status.hpp"
#include "env/judge/evaluator_options.hpp"
#include "env/task/task_check.hpp"

namespace quern::env {

/// Error: no Python with torch, or no sandbox where one is required.
base::expected<std::unique_ptr<task_checker>> open_module_checker(const evaluator_options& options);

}  // namespace quern::env
