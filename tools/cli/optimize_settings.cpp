// From the words of `quern optimize` to the configuration of its run.
#include <optional>

#include <fmt/format.h>

#include "base/program.hpp"
#include "tools/cli/optimize.hpp"
#include "tools/cli/parse.hpp"
#include "tools/cli/shipped_tasks.hpp"

namespace quern::tools {
namespace {

using base::errc;
using base::fail;
namespace fs = std::filesystem;

base::status check_policy(const std::string& policy) {
  std::error_code ignored;
  if (fs::exists(fs::path(policy) / "config.json", ignored)) return {};
  const auto shipped = base::share_folder(policy);
  if (shipped && fs::exists(*shipped / "config.json", ignored)) return {};
  return fail(errc::not_found,
              "--policy {}: there is no {}: name a Hugging Face folder, such as policy/demo or one "
              "that quern export writes",
              policy, (fs::path(policy) / "config.json").string());
}

constexpr key_of_option keys_of_words[] = {{"run.seed", "--seed"},
                                           {"run.folder", "--run"},
                                           {"run.budget_evaluations", "--budget"},
                                           {"algorithm.group_size", "--group"},
                                           {"policy.model", "--policy"},
                                           {"replay.exemplars", "--exemplars and --independent"},
                                           {"env.sandbox", "--best-effort"},
                                           {"tasks.kernelbench", "--kernelbench"},
                                           {"tasks.suite", "TASK"}};

}  // namespace

base::expected<optimized_task> find_optimized_task(const optimize_arguments& a) {
  env::source_options options;
  options.kernelbench = a.kernelbench;
  optimized_task made;
  QUERN_TRY(made.word, resolve_task(a.task, options));
  QUERN_TRY(made.found, env::find_task(made.word, options));
  return made;
}

base::expected<std::vector<std::string>> optimize_settings(const optimize_arguments& a,
                                                           const optimized_task& task) {
  if (a.budget < a.group)
    return fail(errc::invalid_argument,
                "--budget is {}, but a group has {} samples: say {} or more, or a smaller --group",
                a.budget, a.group, a.group);
  QUERN_CHECK(refuse_keys_of_options(a.settings, keys_of_words));
  QUERN_CHECK(check_policy(a.policy));
  const env::task& what = task.found.task;
  std::optional<env::suite> of = task.found.of_suite;
  if (!of) {
    QUERN_TRY(of, env::suite_beside(task.word));
  }
  const auto baseline = of ? of->baseline : env::baseline_choice::of_task;
  std::vector<std::string> settings = {
      "stage=search",
      "run.name=optimize-" + what.name,
      "run.folder=" + a.folder,
      fmt::format("run.seed={}", a.seed),
      fmt::format("run.budget_evaluations={}", a.budget),
      "policy.model=" + a.policy,
      "tasks.source=suite",
      "tasks.suite=" + task.word,
      "tasks.kernelbench=" + a.kernelbench,
      fmt::format("env.lane={}", what.lane->name),
      fmt::format("env.baseline={}", env::name_of(baseline)),
      fmt::format("env.sandbox={}", a.best_effort ? "best_effort" : "required"),
      // A search compares many kernels; the best one is measured again at the end, for longer.
      "env.time_budget_s=0.2",
      "env.precision=0.04",
      "env.noise_limit=0.15",
      fmt::format("algorithm.group_size={}", a.group),
      // Two groups are under way: one is sampled while the other is judged.
      "algorithm.groups_per_step=1",
      "actors.staleness=1",
      fmt::format("replay.exemplars={}", a.independent ? "none" : a.exemplars),
      "replay.without_exemplars_share=0.25",
      "replay.bucket_width=0.25",
      "replay.buckets=40",
      "replay.bucket_temperature=0.5",
      // Everything that is found is the policy's own, and everything measured is in the budget.
      "replay.seed_variants=0",
      "observe.log_level=warning",
  };
  settings.insert(settings.end(), a.settings.begin(), a.settings.end());
  return settings;
}

}  // namespace quern::tools
