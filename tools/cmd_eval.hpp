// `quern eval TASK CANDIDATE`: one candidate, one verdict, for a person or as JSON.
#pragma once

#include <string>

#include "env/task/task_source.hpp"
#include "tools/cli/measure_options.hpp"

namespace quern::tools {

struct eval_arguments {
  std::string task;       ///< a task file, or a task of others (env/task/find_tasks.hpp)
  std::string candidate;  ///< a C++ or CUDA C++ file; "-": standard input
  bool explain = false;   ///< all evidence
  bool json = false;  ///< the verdict (docs/formats/verdict.md) on one line, nothing else on stdout
  bool verify_only = false;
  bool screen = true;        ///< false: the sandbox alone decides
  bool best_effort = false;  ///< run with fewer sandbox layers than `required`
  double budget_s = 0;       ///< 0: the protocol's own length, else half a second
  double timeout_s = 0;      ///< of the whole evaluation; 0: the limits of its stages alone
  std::string suite;         ///< folder whose suite.yaml holds; empty: that beside the task
  env::source_options tasks;
  measure_options how;
  int core = -1;
  int gpu = 0;
};

/// Exit code: 0 for any verdict about the candidate, 1 for infra_error and
/// invalid_reference, 2 for files that cannot be
/// read or are no task, a task of another lane, a core that this process may not run on.
int cmd_eval(const eval_arguments& arguments);

/// The same from a command line; `argv[0]` is the command's name.
int cmd_eval(int argc, char** argv);

}  // namespace quern::tools
