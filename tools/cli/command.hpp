// The commands of `quern`: each is a function from arguments to an exit code.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace quern::tools {

/// Exit codes: a contract with scripts.
enum exit_code : int {
  done = 0,
  failed = 1,  ///< the message says what, and where what was made is kept
  usage = 2,   ///< the command line or the configuration
  paused = 3,  ///< resume to go on
  nothing = 4  ///< nothing was done; zero steps are not success
};

/// `argv[0]` is the command's name.
using command_function = int (*)(int argc, char** argv);

struct command {
  std::string_view name;
  std::string_view summary;
  command_function run;
};

int cmd_ablate(int argc, char** argv);
int cmd_train(int argc, char** argv);
int cmd_resume(int argc, char** argv);
int cmd_status(int argc, char** argv);
int cmd_show(int argc, char** argv);
int cmd_why(int argc, char** argv);
int cmd_report(int argc, char** argv);
int cmd_compare(int argc, char** argv);
int cmd_pause(int argc, char** argv);
int cmd_stop(int argc, char** argv);
int cmd_evaluator(int argc, char** argv);
int cmd_config(int argc, char** argv);
int cmd_keys(int argc, char** argv);
int cmd_tasks(int argc, char** argv);
int cmd_bench(int argc, char** argv);
int cmd_baselines(int argc, char** argv);
int cmd_explain(int argc, char** argv);
int cmd_optimize(int argc, char** argv);
int cmd_doctor(int argc, char** argv);
int cmd_sample(int argc, char** argv);
int cmd_export(int argc, char** argv);

/// Prints "quern COMMAND: message" on stderr and returns the code that fits the error.
int report(std::string_view name, const base::error& problem);

/// Prints what the command was asked for, such as JSON. Returns `done`, also where the reader has
/// left (`| head -1`; needs base::ignore_broken_pipes); `failed`, with the reason on stderr, where
/// it cannot be written, as on a full disk. One thread at a time.
int print_result(std::string_view name, std::string_view text);

}  // namespace quern::tools
