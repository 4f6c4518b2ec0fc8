// `quern eval TASK CANDIDATE`: one candidate, one verdict, for a person or as JSON.
#pragma once

#include "tools/cli/eval_job.hpp"

namespace quern::tools {

/// Exit code: 0 for any verdict about the candidate, with `strict` for `ok` alone; 1 for other
/// verdicts; 2 for files that cannot be read or are no task, a task of another lane, a core that
/// this process may not run on.
int cmd_eval(const eval_arguments& asked);

/// The same from a command line; `argv[0]` is the command's name.
int cmd_eval(int argc, char** argv);

}  // namespace quern::tools
