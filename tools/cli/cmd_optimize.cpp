// quern optimize: the best kernel for one task that a policy finds within a budget.
#include <filesystem>

#include <fmt/format.h>

#include "actors/config/config_file.hpp"
#include "actors/finish.hpp"
#include "base/write_signals.hpp"
#include "storage/run_directory.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/optimize.hpp"
#include "tools/cli/parse.hpp"
#include "tools/cli/tell.hpp"
#include "tools/cli/train_run.hpp"

namespace quern::tools {
namespace {

namespace fs = std::filesystem;

fs::path usual_folder(const optimize_arguments& a, const std::string& task) {
  return fs::path("runs") / "optimize" /
         fmt::format("{}-{}{}", task, a.seed, a.independent ? "-independent" : "");
}

/// Begins the run, goes on with it, or leaves it alone where its budget is spent.
run_outcome search(const actors::run_config& config, const fs::path& folder,
                   const std::vector<std::string>& settings) {
  std::error_code ignored;
  if (!fs::exists(folder / "meta.json", ignored)) {
    if (const auto free = storage::may_become_run(folder); !free) {
      tell(stderr, "quern optimize: --run: {}\n", free.error().message);
      return {usage};
    }
    return begin_run(config, folder, folder);
  }
  // What differs from the run that is there is refused, unless a run may change it.
  const auto changed = changed_config(folder, settings, false);
  if (!changed) {
    tell(stderr,
         "quern optimize: {} is a search already, with other settings: {}; or name another "
         "--run\n",
         folder.string(), changed.error().message);
    return {usage};
  }
  const auto before = changed_config(folder, {}, false);
  // A key that a run may change; but half a search with exemplars is neither one nor the other.
  if (before && before->replay.exemplars != changed->replay.exemplars) {
    tell(stderr,
         "quern optimize: {} is a search with replay.exemplars = {}, not {}: say the same, or name "
         "another --run\n",
         folder.string(), before->replay.exemplars, changed->replay.exemplars);
    return {usage};
  }
  if (is_complete_run(*changed, folder)) return {done};
  return go_on_with_run(folder, settings, folder);
}

int optimize(optimize_arguments a, bool explain) {
  const auto task = find_optimized_task(a);
  if (!task) return report("optimize", task.error());
  if (a.folder.empty()) a.folder = usual_folder(a, task->found.task.name).string();
  const auto settings = optimize_settings(a, *task);
  if (!settings) {
    tell(stderr, "quern optimize: {}\n", settings.error().message);
    return usage;
  }
  auto config = actors::load_config_text("quern_config: 2\n", "quern optimize", *settings);
  if (!config) return report("optimize", config.error());
  actors::make_paths_absolute(*config);
  const fs::path folder = a.folder;
  const run_outcome outcome = search(*config, folder, *settings);
  if (outcome.code == paused) tell(stderr, "the same quern optimize command goes on, too\n");
  if (outcome.code != done) return outcome.code;
  auto run = storage::run_directory::open(folder);
  if (!run) return report("optimize", run.error());
  const auto kept = keep_best(*config, *run, explain);
  return kept ? done : report("optimize", kept.error());
}

}  // namespace

int cmd_optimize(int argc, char** argv) {
  base::ignore_broken_pipes();
  CLI::App app(
      "quern optimize: searches a kernel for one task with a policy that does not change. Prompts "
      "show the policy kernels that the search has found, with their speed-ups. Ctrl-C pauses; the "
      "same command goes on, and a larger --budget goes on with a search that has ended");
  optimize_arguments a;
  a.policy = "policy/demo";
  bool explain = false;
  app.add_option("task", a.task,
                 "NAME.task.yaml, the name of a shipped task" + env::foreign_forms())
      ->required();
  app.add_option("--policy", a.policy, "Hugging Face folder of the policy")->capture_default_str();
  app.add_option("--budget", a.budget, "samples that are judged in all")
      ->check(whole_within(1, 1'000'000'000))
      ->capture_default_str();
  app.add_option("--group", a.group, "samples of one prompt")
      ->check(whole_within(2, 1024))
      ->capture_default_str();
  app.add_option("--seed", a.seed, "address of every random number of the search")
      ->check(whole_within(0, 9'000'000'000'000'000))
      ->capture_default_str();
  app.add_option("--exemplars", a.exemplars, "how kernels are chosen that a prompt shows")
      ->check(CLI::IsMember({"bucket", "island", "random"}))
      ->capture_default_str();
  app.add_flag("--independent", a.independent,
               "show none: independent samples, to compare a search with")
      ->excludes("--exemplars");
  app.add_flag("--explain", explain,
               "print the chain from the first kernels that were shown to the best");
  app.add_flag("--best-effort", a.best_effort,
               "run although sandbox layers are missing (see quern doctor)");
  app.add_option("--run", a.folder, "folder of the search; default: runs/optimize/NAME-SEED");
  app.add_option("--kernelbench", a.kernelbench,
                 "folder of KernelBench's tree; default: the variable KERNELBENCH");
  app.add_option("--set", a.settings, "KEY=VALUE of the run's configuration; may be repeated")
      ->allow_extra_args(false);
  if (const auto code = parse(app, argc, argv)) return *code;
  return optimize(std::move(a), explain);
}

}  // namespace quern::tools
