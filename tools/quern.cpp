// quern: the command line and the control process. Links no LibTorch, so that it starts in
// milliseconds.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptors.hpp"
#include "base/printable.hpp"
#include "base/text.hpp"
#include "base/write_signals.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/last_words.hpp"
#include "tools/cmd_eval.hpp"

namespace {

using namespace quern::tools;

constexpr std::array commands = {
    command{"train", "run an experiment from a configuration", cmd_train},
    command{"status", "where a run stands", cmd_status},
    command{"show", "what the model writes, with verdicts and rewards", cmd_show},
    command{"why", "the life of one sample, from prompt to gradient step", cmd_why},
    command{"pause", "bring a run to a durable stop; resume goes on", cmd_pause},
    command{"resume", "go on with a run that was paused or stopped, or that failed", cmd_resume},
    command{"stop", "end a run with a checkpoint", cmd_stop},
    command{"report", "a run's closing report again, and its page; --serve follows the run",
            cmd_report},
    command{"compare", "figures, curves and settings of runs side by side", cmd_compare},
    command{"ablate", "compare stages and choices of exemplars at equal evaluations", cmd_ablate},
    command{"optimize", "search the best kernel for one task with a policy as it is", cmd_optimize},
    command{"eval", "judge one kernel for one task", cmd_eval},
    command{"bench", "judge many kernels of a suite, and report", cmd_bench},
    command{"baselines", "time the references of a suite, for tables of baselines", cmd_baselines},
    command{"sample", "completions of a policy for a prompt", cmd_sample},
    command{"explain", "print a loss, the rewards or every configuration key", cmd_explain},
    command{"config", "bring a configuration file to the names of this build", cmd_config},
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

/// Threads of LibTorch wait for each other many times a token. Where they spin meanwhile, they take
/// the cores of the run's other processes, and of each other. libgomp reads it when a child begins.
void let_threads_sleep() {
  constexpr int unless_it_is_set = 0;
  ::setenv("OMP_WAIT_POLICY", "passive", unless_it_is_set);
}

/// Without a handler anywhere, and without noexcept, for which the frames below would be unwound
/// first: one of them may hold a node, which waits for actors that were never started.
int run(const command& known, int argc, char** argv) {
  static const std::string program = std::string("quern ") + argv[0];
  end_with_last_words(program.c_str());
  return known.run(argc, argv);
}

}  // namespace

int main(int argc, char** argv) {
  quern::base::fill_standard_descriptors();
  quern::base::raise_descriptor_limit();
  quern::base::ignore_file_size_signal();
  let_threads_sleep();
  if (argc < 2) return help(stderr);
  std::string_view name = argv[1];
  const bool asks = name == "--help" || name == "-h" || name == "help";
  if (asks && argc == 2) return help(stdout);
  if (name == "--version") {
    std::puts("quern 0.1.0");
    return done;
  }
  // `quern help COMMAND` is `quern COMMAND --help`.
  std::string option = "--help";
  std::array<char*, 3> for_help = {asks ? argv[2] : nullptr, option.data(), nullptr};
  if (asks) {
    name = argv[2];
    argc = 3;
  }
  std::vector<std::string_view> names;
  for (const command& known : commands) {
    if (known.name == name) return run(known, argc - 1, asks ? for_help.data() : argv + 1);
    names.push_back(known.name);
  }
  std::fprintf(stderr, "quern: no command '%s'%s; quern --help lists them\n",
               quern::base::printable(name).c_str(),
               quern::base::did_you_mean(name, names).c_str());
  return usage;
}
