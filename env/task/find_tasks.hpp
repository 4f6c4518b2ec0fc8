// What a person's word names: a task file, a suite, or tasks of others in a form that a lane reads.
#pragma once

#include <optional>
#include <string>

#include "base/status.hpp"
#include "env/task/suite.hpp"
#include "env/task/task_source.hpp"

namespace quern::env {

/// Whether a lane reads `text` as it is (task_source), so that it is no task file and no folder of
/// these.
bool names_foreign_tasks(const std::string& text, const source_options& options);

/// All tasks that `text` names: the suite of a folder, or tasks of others. "TEXT#NAME" is the one
/// task of that name. Errors: those of load_suite() and of task_source::read; not_found: no task
/// has the name.
base::expected<suite> find_tasks(const std::string& text, const source_options& options);

struct found_task {
  env::task task;
  /// The suite that tasks of others are, without members; nothing for a task file, whose suite is
  /// that beside it (suite_beside()).
  std::optional<suite> of_suite;
};

/// The one task that `text` names: a task file, or a task of others. Errors: those of load_task()
/// and find_tasks(); invalid_argument: tasks of others of which `text` names several.
base::expected<found_task> find_task(const std::string& text, const source_options& options);

/// Candidates that stand in the file `text` beside tasks of others; nothing where no lane knows it.
base::expected<std::vector<bundled_candidate>> find_candidates(const std::string& text,
                                                               const source_options& options);

/// The forms that the lanes of this program read beside task files, for help: "; or FORMS". Empty
/// where there are none.
std::string foreign_forms();

}  // namespace quern::env
