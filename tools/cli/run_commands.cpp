// quern pause and stop: orders to the control process of a run.
#include <fmt/format.h>

#include "storage/run_directory.hpp"
#include "tools/cli/ask_run.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/find_run.hpp"
#include "tools/cli/parse.hpp"

namespace quern::tools {
namespace {

/// Asks the control process for an end and does not wait for it. `about`: what the command orders.
int order(const char* name, const char* about, int argc, char** argv) {
  CLI::App app(fmt::format(
      "quern {}: {}. Asks and returns at once: the run ends when its evaluations, or in stage sft "
      "the task or the step it is at, are finished. quern status RUN tells whether it still runs. "
      "A run that was asked before ends as it was asked first.",
      name, about));
  std::string run;
  app.add_option("run", run, "folder of a run, or its name below runs/")->required();
  if (const auto code = parse(app, argc, argv)) return *code;
  const auto present = find_run(run);
  if (!present) return report(name, present.error());
  const storage::run_paths paths{*present};
  if (const auto meta = storage::read_meta(paths); !meta) return report(name, meta.error());
  const auto reply = ask_run(paths, name);
  if (!reply) {
    fmt::print(stderr,
               "quern {}: no control process answers for {}: {}; quern status {} tells where it "
               "stands, quern resume {} goes on\n",
               name, run, reply.error().message, run, run);
    return failed;
  }
  // An earlier build answers without `ok` of this meaning, but always true.
  if (!reply->value("ok", true)) {
    fmt::print(stderr,
               "quern {}: {} was asked to end otherwise before, and does; quern resume {} goes on "
               "when it has ended\n",
               name, run, run);
    return failed;
  }
  fmt::print("{}: asked to {}; it ends when what it is at is finished: quern status {} tells\n",
             run, name, run);
  return done;
}

}  // namespace

int cmd_pause(int argc, char** argv) {
  return order("pause",
               "end a run with a checkpoint and keep its samples in flight for quern resume", argc,
               argv);
}
int cmd_stop(int argc, char** argv) {
  return order(
      "stop",
      "end a run with a checkpoint, drop its samples in flight and make its closing report; "
      "quern resume goes on with new samples. A run of stage sft has no samples and no report: it "
      "ends with its checkpoint",
      argc, argv);
}

}  // namespace quern::tools
