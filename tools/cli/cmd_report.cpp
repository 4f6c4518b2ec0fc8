// quern report: what a run says at its end, once more.
#include <filesystem>

#include "actors/config/preflight.hpp"
#include "actors/config/stages.hpp"
#include "actors/finish.hpp"
#include "base/log.hpp"
#include "storage/run_directory.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/parse.hpp"
#include "tools/cli/tell.hpp"
#include "tools/cli/train_run.hpp"

namespace quern::tools {
namespace {

namespace fs = std::filesystem;

/// The tasks of the run; checked as for a resume where they are to be judged again.
base::expected<actors::task_book> tasks_of(const actors::run_config& config, const fs::path& folder,
                                           actors::missing_panel how) {
  if (how == actors::missing_panel::measure)
    return actors::preflight(config, folder, actors::run_beginning::resuming);
  return actors::task_book::make(config);
}

int make_report(const fs::path& folder) {
  auto run = storage::run_directory::open(folder);
  if (!run) return report("report", run.error());
  const auto config = changed_config(folder, {}, false);
  if (!config) return report("report", config.error());
  if (config->stage == "sft") {
    tell(stderr,
         "quern report: {} is of stage sft, which issues no samples and has no report: quern "
         "status {}\n",
         folder.string(), folder.string());
    return nothing;
  }
  base::set_log_level(config->observe.log_level);
  const auto goal = actors::goal_of(*config, run->paths());
  if (!goal) return report("report", goal.error());
  // The last weights of a run that goes on are not the last ones.
  const bool measures = goal->reached() && actors::lacks_panel(*config, run->paths());
  const auto how = measures ? actors::missing_panel::measure : actors::missing_panel::leave_out;
  const auto tasks = tasks_of(*config, folder, how);
  if (!tasks) return report("report", tasks.error());
  const auto made = actors::finish_run(*config, *run, *tasks, how);
  if (!made) return report("report", made.error());
  if (!*made) {
    tell(stderr, "paused: quern report {}\n", folder.string());
    return paused;
  }
  if (!goal->reached()) tell(stdout, "at {} {} of {}:\n", goal->unit, goal->done, goal->wanted);
  tell(stdout, "{}", **made);
  return done;
}

}  // namespace

int cmd_report(int argc, char** argv) {
  CLI::App app("quern report: make a run's closing report again: RUN/report.txt, RUN/kernels");
  std::string run;
  app.add_option("run", run, "run directory")->required();
  if (const auto code = parse(app, argc, argv)) return *code;
  const auto present = actors::present_stage(run);
  if (!present) return report("report", present.error());
  return make_report(*present);
}

}  // namespace quern::tools
