// quern: the command line and the control process. Links no LibTorch, so that it starts in
// milliseconds.
#include <array>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.hpp"
#include "tools/cli/command.hpp"
#include "tools/cmd_eval.hpp"

namespace {

using namespace quern::tools;

int run_eval(int argc, char** argv) {
  return cmd_eval(argc - 1, argv + 1);
}

constexpr std::array commands = {
    command{"train", "run an experiment from a configuration", cmd_train},
    command{"status", "where a run stands", cmd_status},
    command{"pause", "bring a run to a durable stop; resume goes on", cmd_pause},
    command{"resume", "go on with a run that was paused or failed", cmd_resume},
    command{"stop", "end a run with a checkpoint", cmd_stop},
    command{"eval", "judge one kernel for one task", run_eval},
    command{"bench", "judge many kernels of a suite, and report", cmd_bench},
    command{"sample", "completions of a policy for a prompt", cmd_sample},
    command{"explain", "print a loss, the rewards or every configuration key", cmd_explain},
    command{"export", "write a checkpoint's policy as a Hugging Face folder", cmd_export},
    command{"tasks", "generate, check and begin tasks", cmd_tasks},
    command{"evaluator", "evaluate for a run, from this or another machine", cmd_evaluator},
    command{"keys", "a key pair for evaluator hosts of other machines", cmd_keys},
    command{"doctor", "what will work on this machine, and what to do", cmd_doctor},
};

int help(std::FILE* out) {
  std::fputs("Quern trains language models to write fast kernels.\n\nusage: quern COMMAND ...\n\n",
             out);
  for (const command& known : commands) {
    std::fprintf(out, "  %-10s %s\n", std::string(known.name).c_str(),
                 std::string(known.summary).c_str());
  }
  std::fputs(
      "\nquern COMMAND --help tells more. Exit codes: 0 done, 1 failed, 2 usage or "
      "configuration, 3 paused, 4 nothing was done.\n",
      out);
  return out == stdout ? done : usage;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return help(stderr);
  const std::string_view name = argv[1];
  if (name == "--help" || name == "-h" || name == "help") return help(stdout);
  if (name == "--version") {
    std::puts("quern 0.1.0");
    return done;
  }
  std::vector<std::string_view> names;
  for (const command& known : commands) {
    if (known.name == name) return known.run(argc - 1, argv + 1);
    names.push_back(known.name);
  }
  std::fprintf(stderr, "quern: no command '%s'%s; quern --help lists them\n", argv[1],
               quern::base::did_you_mean(name, names).c_str());
  return usage;
}
