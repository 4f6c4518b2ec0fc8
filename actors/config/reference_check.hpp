// Whether the tasks of a run can be trained on: their references and plain baselines compile, and
// they pass the cheap rules of `quern tasks check`.
#pragma once

#include <string>

#include "actors/config/run_config.hpp"
#include "actors/orchestrator/task_book.hpp"
#include "base/status.hpp"
#include "env/task/task_check.hpp"

namespace quern::actors {

/// Every task is of the run's lane, which can measure over the asked baseline: over another one
/// every verdict would be infra_error.
base::status check_lane(const run_config& config, const task_book& tasks);

/// Checks every task of a suite by the quick checks of its lane, in one sandboxed reference process
/// on this machine. The process takes a second, a task some tenths. Where the lane's programs are
/// here, each plain baseline takes a compiler's time more. Of tasks drawn from the grammar the
/// texts are checked and no process is started: tests compile what the grammar writes. Gives a
/// sentence about what was checked and how long it took. Errors: invalid_argument, which names the
/// first task file that is refused, the rule and what to do, and counts the others; unavailable:
/// references cannot be run here.
base::expected<std::string> check_references(const run_config& config, const task_book& tasks);

/// The same with a checker that is there. Null: texts alone are checked, as those of drawn tasks
/// and of a lane that has no quick checks.
base::expected<std::string> check_references(const run_config& config, const task_book& tasks,
                                             env::task_checker* checker);

}  // namespace quern::actors
