// Tasks that others wrote and that need no conversion: a lane names the forms that it reads
// (lane::tasks_from). Commands ask find_tasks.hpp, which asks the lanes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "env/task/suite.hpp"

namespace quern::env {

/// What a command or a configuration says beside the word that names tasks.
struct source_options {
  /// Whose tasks a word names where this lane knows it. Null, or not known there: those of the
  /// first lane that knows it.
  const env::lane* lane = nullptr;
  /// Folder of KernelBench's tree; empty: the variable KERNELBENCH of the environment.
  std::string kernelbench;
  /// What floating inputs and weights are cast to; empty: what the form says, or its default.
  std::string precision;
};

/// A candidate that stands in a file of tasks.
struct bundled_candidate {
  std::string task;  ///< the name of its task in the suite of the same file
  std::string id;    ///< unique among those of its task, the same at each reading
  std::string source;
};

/// A constant for as long as the program runs. Functions may be called from any thread, and run
/// nothing of what they read. `text` is what a person wrote: a path or a name.
struct task_source {
  /// What a person may write: "kernelbench:LEVEL[/PROBLEM], a .py file".
  std::string_view forms;
  /// Whether `text` has one of the forms: by its letters, and for a folder by the names in it.
  bool (*knows)(const std::string& text);
  /// The tasks that `text` names, at least one, of lane `of`, with nothing held out and the
  /// defaults of the lane. Errors name the file and the line or record in it.
  base::expected<suite> (*read)(const lane& of, const std::string& text,
                                const source_options& options);
  /// Candidates that stand beside the tasks of a file; none in most forms.
  base::expected<std::vector<bundled_candidate>> (*candidates)(const lane& of,
                                                               const std::string& text,
                                                               const source_options& options);
};

}  // namespace quern::env
