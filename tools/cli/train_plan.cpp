// What a run would be: quern train --dry-run, and the checks of references before a run begins.
#include <cerrno>

#include <fmt/format.h>

#include "actors/config/cluster_check.hpp"
#include "actors/config/config_file.hpp"
#include "actors/config/memory_check.hpp"
#include "actors/config/preflight.hpp"
#include "actors/config/reference_check.hpp"
#include "actors/config/sample_window.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/tell.hpp"
#include "tools/cli/train_run.hpp"

namespace quern::tools {
namespace {

namespace fs = std::filesystem;

void print_plan(const actors::run_config& config, const actors::task_book& tasks) {
  tell(stdout, "{}", actors::to_yaml(config));
  std::size_t held_out = 0;
  for (const auto& task : tasks.tasks())
    held_out += task.held_out ? 1 : 0;
  tell(stdout, "\n# plan: {} in {}\n", config.stage, folder_of(config).string());
  tell(stdout, "# tasks: {} {}, {} held out\n", tasks.tasks().size() - held_out,
       actors::is_search(config) ? "searched" : "trained on", held_out);
  if (config.stage == "sft") {
    tell(stdout, "# corpus: {} tasks, {} records each; {} steps of {} samples\n",
         config.tasks.corpus_tasks, config.tasks.corpus_variants, config.learner.steps,
         config.learner.batch_samples);
    tell(stdout, "# processes: control, {} corpus makers, then {}\n", config.env.evaluators,
         config.learner.ranks == 1 ? "the learner"
                                   : fmt::format("{} learner ranks", config.learner.ranks));
    return;
  }
  if (actors::is_search(config)) {
    tell(stdout, "# processes: control, generator, {} evaluator hosts; no learner\n",
         config.env.evaluators);
    tell(stdout, "{}", actors::describe_hosts(config));
    tell(stdout, "# {} evaluations in groups of {} samples\n", config.run.budget_evaluations,
         config.algorithm.group_size);
    tell(stdout, "{}", actors::describe_window(config));
    return;
  }
  tell(
      stdout, "# processes: control, {}, generator, {} evaluator hosts\n",
      config.learner.ranks == 1 ? "learner" : fmt::format("{} learner ranks", config.learner.ranks),
      config.env.evaluators);
  tell(stdout, "{}", actors::describe_hosts(config));
  tell(stdout, "# {} steps of {} groups of {} samples; a sample is at most {} steps behind\n",
       config.learner.steps, config.algorithm.groups_per_step, config.algorithm.group_size,
       config.actors.staleness);
  tell(stdout, "{}", actors::describe_window(config));
}

}  // namespace

fs::path folder_of(const actors::run_config& config) {
  return config.run.folder.empty() ? fs::path("runs") / config.run.name
                                   : fs::path(config.run.folder);
}

base::expected<std::string> tried_references(const actors::run_config& config,
                                             const actors::task_book& tasks) {
  auto checked = actors::check_references(config, tasks);
  if (checked) return checked;
  return base::fail(base::errc::invalid_argument, "{}", checked.error().message);
}

int show_plan(const actors::run_config& config, const fs::path& folder,
              const policy::model_config* begins_with) {
  actors::missing_hardware missing;
  const auto how =
      begins_with == nullptr ? actors::run_beginning::fresh : actors::run_beginning::later;
  const auto tasks = actors::preflight(config, folder, how, &missing, begins_with);
  if (!tasks) return report("train", tasks.error());
  const auto model = begins_with == nullptr ? actors::policy_shape(config)
                                            : base::expected<policy::model_config>(*begins_with);
  if (!model) return report("train", model.error());
  const auto checked = tried_references(config, *tasks);
  if (!checked) return report("train", checked.error());
  print_plan(config, *tasks);
  tell(stdout, "# {}\n", *checked);
  tell(stdout, "{}", actors::describe_memory(config, *model, actors::memory_here(config)));
  for (const std::string& what : missing)
    tell(stdout, "# missing here: {}\n", what);
  // Here the text is what was asked for, unlike what a run says beside its work.
  if ((std::fflush(stdout) != 0 || std::ferror(stdout) != 0) && errno == ENOSPC) {
    tell(stderr, "quern train: the plan could not be written: no space left on its device\n");
    return failed;
  }
  return done;
}

}  // namespace quern::tools
