#include "tools/ablate/plan.hpp"

#include <algorithm>
#include <charconv>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/config/config_file.hpp"
#include "base/text.hpp"
#include "tools/ablate/places.hpp"

namespace quern::tools {
namespace {

using base::errc;
using base::fail;

constexpr std::int64_t largest_seed = 9'000'000'000'000'000;
constexpr std::size_t most_seeds = 100;
constexpr std::string_view contrastive_prefix = "+contrastive:";

/// The stages of a configuration; null: it has none of that kind.
struct ablation_stages {
  const actors::run_config* sft = nullptr;
  const actors::run_config* self_train = nullptr;
  const actors::run_config* contrastive = nullptr;
};

bool is_arm(std::string_view word) {
  return std::ranges::find(arm_names, word) != std::end(arm_names);
}

bool takes_stage_2(std::string_view arm) {
  return arm == "stage1+2" || arm.starts_with("+");
}

std::int64_t samples_of_step(const actors::run_config& config) {
  return config.algorithm.group_size * config.algorithm.groups_per_step;
}

base::expected<ablation_stages> stages_for(const std::vector<actors::stage_plan>& stages) {
  ablation_stages found;
  for (const actors::stage_plan& stage : stages) {
    const std::string& kind = stage.config.stage;
    const actors::run_config** place = kind == "sft"           ? &found.sft
                                       : kind == "self_train"  ? &found.self_train
                                       : kind == "contrastive" ? &found.contrastive
                                                               : nullptr;
    if (place == nullptr)
      return fail(errc::invalid_argument,
                  "the configuration has stage {}, an ablation takes sft, self_train and "
                  "contrastive: take it out",
                  kind);
    if (*place != nullptr)
      return fail(errc::invalid_argument,
                  "the configuration has stage {} twice, an ablation takes each once: take one out",
                  kind);
    if (found.contrastive != nullptr && place != &found.contrastive)
      return fail(errc::invalid_argument,
                  "the configuration has stage {} after contrastive: put contrastive last", kind);
    *place = &stage.config;
  }
  if (found.contrastive == nullptr)
    return fail(errc::invalid_argument,
                "the configuration has no stage contrastive, which says tasks and evaluation set "
                "of all arms: add one, as configs/ablation_quick.yaml has");
  return found;
}

base::status check_evaluation_set(const actors::run_config& config) {
  if (config.observe.evaluation_set_held_out < 1)
    return fail(
        errc::invalid_argument,
        "observe.evaluation_set_held_out is {}, but arms are compared by held-out prompts: set it "
        "to 1 or more",
        config.observe.evaluation_set_held_out);
  if (config.tasks.source == "generated" && config.tasks.held_out_count < 1)
    return fail(errc::invalid_argument,
                "tasks.held_out_count is {}, but arms are compared on held-out tasks: set it to 1 "
                "or more",
                config.tasks.held_out_count);
  return {};
}

/// What an arm asks of the configuration.
base::status check_arm(std::string_view arm, const ablation_stages& have,
                       const ablation_folders& folders) {
  if (arm == "vanilla" && folders.vanilla.empty() && !folders.stage1.empty())
    return fail(errc::invalid_argument,
                "--arms: vanilla is the policy before that of --stage1: name it with --vanilla "
                "FOLDER, or leave the arm out");
  if (arm == "vanilla" && have.sft != nullptr && folders.vanilla.empty())
    return fail(errc::invalid_argument,
                "--arms: vanilla is the policy before fine-tuning, but stage sft of the "
                "configuration makes its policy anew: name a policy with --vanilla FOLDER, say "
                "stage1, or take that stage out and set policy.model");
  if (arm == "stage1" && have.sft == nullptr && folders.vanilla.empty() && folders.stage1.empty())
    return fail(errc::invalid_argument,
                "--arms: stage1 is the policy of stage sft, which the configuration does not have: "
                "say vanilla for policy.model as it is, add that stage, or, where policy.model is "
                "fine-tuned already, say --stage1 FOLDER");
  if (arm == "stage1+2" && have.self_train == nullptr)
    return fail(errc::invalid_argument,
                "--arms: stage1+2 needs stage self_train, which the configuration does not have: "
                "leave the arm out, or add that stage");
  if (arm == "evolve" && have.contrastive->tasks.source != "generated")
    return fail(errc::invalid_argument,
                "--arms: evolve searches the held-out tasks of tasks.source generated, not {}: "
                "leave the arm out",
                have.contrastive->tasks.source);
  return {};
}

/// Whether the budget is a whole number of steps of a stage.
base::status check_budget(std::int64_t budget, const actors::run_config& config) {
  const std::int64_t step = samples_of_step(config);
  if (budget > 0 && budget % step == 0) return {};
  const std::int64_t below = std::max<std::int64_t>(1, budget / step) * step;
  return fail(errc::invalid_argument,
              "--budget is {}, but a step of stage {} takes {} evaluations "
              "(algorithm.group_size = {} times algorithm.groups_per_step = {}): say a multiple, "
              "such as {} or {}",
              budget, config.stage, step, config.algorithm.group_size,
              config.algorithm.groups_per_step, below, below + step);
}

class plan_maker {
 public:
  plan_maker(ablation_plan& plan, const ablation_stages& have, ablation_folders folders)
      : plan_(plan), have_(have), folders_(std::move(folders)) {}

  void add(const std::string& arm, std::int64_t seed) {
    const auto begins_with = takes_stage_2(arm) ? stage_2(seed)
                             : arm == "vanilla" ? std::nullopt
                                                : stage_1(seed);
    planned_run run;
    run.name = fmt::format("{}/seed-{}", arm_folder(arm), seed);
    run.arm = arm;
    run.config = config_of(arm);
    if (arm == "evolve")
      run.evaluations = run.config.run.budget_evaluations;
    else if (arm != "vanilla" && arm != "stage1")
      run.evaluations = plan_.budget;
    put(std::move(run), seed, begins_with);
  }

 private:
  [[nodiscard]] actors::run_config config_of(std::string_view arm) const {
    actors::run_config made = arm == "stage1+2" ? *have_.self_train : *have_.contrastive;
    // The same tasks, measured in the same way, answer by answer.
    made.tasks = have_.contrastive->tasks;
    made.env = have_.contrastive->env;
    made.observe = have_.contrastive->observe;
    made.policy = have_.contrastive->policy;
    made.policy.model =
        arm == "vanilla" && !folders_.vanilla.empty() ? folders_.vanilla : first_model();
    made.observe.evaluation_set = arm != "evolve";
    made.observe.evaluation_set_train = 0;
    if (arm == "evolve") return search_config(std::move(made));
    if (arm.starts_with(contrastive_prefix)) {
      made.replay.exemplars = arm.substr(contrastive_prefix.size());
    } else {
      made.replay.exemplars = "none";
      made.replay.without_exemplars_share = 1;
    }
    if (arm != "vanilla" && arm != "stage1") {
      made.learner.steps = plan_.budget / samples_of_step(made);
      return made;
    }
    // A run whose weights stay: its evaluation set is that of the weights it begins with.
    made.learner.steps = 1;
    made.learner.learning_rate = 0;
    made.replay.seed_variants = 0;
    return made;
  }

  [[nodiscard]] actors::run_config search_config(actors::run_config made) const {
    made.stage = "search";
    if (made.replay.exemplars == "none") made.replay.exemplars = "bucket";
    made.tasks.source = "suite";
    made.tasks.suite = folders_.held_out_suite;
    // Those of stage 2 as well: the other arms have spent them, too.
    made.run.budget_evaluations = plan_.budget + stage_2_evaluations();
    return made;
  }

  [[nodiscard]] std::int64_t stage_2_evaluations() const {
    if (have_.self_train == nullptr) return 0;
    return have_.self_train->learner.steps * samples_of_step(*have_.self_train);
  }

  [[nodiscard]] std::string first_model() const {
    if (have_.sft != nullptr) return "";
    if (!folders_.stage1.empty()) return folders_.stage1;
    return (have_.self_train != nullptr ? have_.self_train : have_.contrastive)->policy.model;
  }

  /// The run that ends with the policy of stage 1; none: it is policy.model.
  std::optional<std::size_t> stage_1(std::int64_t seed) {
    if (have_.sft == nullptr) return std::nullopt;
    return shared(*have_.sft, 0, seed, std::nullopt);
  }

  std::optional<std::size_t> stage_2(std::int64_t seed) {
    const auto first = stage_1(seed);
    if (have_.self_train == nullptr) return first;
    actors::run_config config = *have_.self_train;
    config.policy.model = first_model();
    config.observe.evaluation_set = false;
    return shared(std::move(config), stage_2_evaluations(), seed, first);
  }

  std::optional<std::size_t> shared(actors::run_config config, std::int64_t evaluations,
                                    std::int64_t seed, std::optional<std::size_t> begins_with) {
    planned_run run;
    run.name = fmt::format("shared/seed-{}/{}", seed, config.stage);
    if (const auto known = shared_.find(run.name); known != shared_.end()) return known->second;
    const std::string name = run.name;
    run.config = std::move(config);
    run.evaluations = evaluations;
    put(std::move(run), seed, begins_with);
    return shared_[name] = plan_.runs.size() - 1;
  }

  void put(planned_run run, std::int64_t seed, std::optional<std::size_t> begins_with) {
    run.seed = seed;
    run.begins_with = begins_with;
    run.config.run.seed = seed;
    run.config.run.name = arm_folder(run.arm.empty() ? run.config.stage : run.arm);
    plan_.runs.push_back(std::move(run));
  }

  ablation_plan& plan_;
  const ablation_stages& have_;
  ablation_folders folders_;
  std::map<std::string, std::size_t> shared_;
};

}  // namespace

base::expected<std::vector<std::string>> parse_arms(std::string_view list) {
  std::vector<std::string> arms;
  for (const std::string_view part : base::split(list, ',')) {
    const std::string arm(base::trim(part));
    if (!is_arm(arm))
      return fail(errc::invalid_argument, "--arms: '{}' is no arm: choose among {}", arm,
                  fmt::join(arm_names, ", "));
    if (std::ranges::find(arms, arm) != arms.end())
      return fail(errc::invalid_argument, "--arms: {} stands twice: take one out", arm);
    arms.push_back(arm);
  }
  return arms;
}

base::expected<std::vector<std::int64_t>> parse_seeds(std::string_view list) {
  std::vector<std::int64_t> seeds;
  for (const std::string_view part : base::split(list, ',')) {
    const std::string_view word = base::trim(part);
    std::int64_t seed = -1;
    const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), seed);
    if (code != std::errc() || end != word.data() + word.size() || seed < 0 || seed > largest_seed)
      return fail(errc::invalid_argument,
                  "--seeds: '{}' is no seed: whole numbers in 0 .. {} with commas between are "
                  "needed, such as 1,2,3",
                  word, largest_seed);
    if (std::ranges::find(seeds, seed) != seeds.end())
      return fail(errc::invalid_argument, "--seeds: {} stands twice: take one out", seed);
    seeds.push_back(seed);
  }
  if (seeds.size() > most_seeds)
    return fail(errc::invalid_argument, "--seeds: {} seeds, at most {} are taken: leave some out",
                seeds.size(), most_seeds);
  return seeds;
}

std::string arm_folder(std::string_view arm) {
  std::string name;
  for (const char c : arm) {
    if (c != '+' && c != ':')
      name += c;
    else if (!name.empty())
      name += '-';
  }
  return name;
}

std::size_t ablation_plan::run_of(std::string_view arm, std::int64_t seed) const {
  const auto found = std::ranges::find_if(
      runs, [&](const planned_run& run) { return run.arm == arm && run.seed == seed; });
  return static_cast<std::size_t>(found - runs.begin());
}

std::vector<std::size_t> ablation_plan::before(std::size_t run) const {
  std::vector<std::size_t> stages;
  for (auto at = runs[run].begins_with; at; at = runs[*at].begins_with)
    stages.insert(stages.begin(), *at);
  return stages;
}

base::expected<std::vector<std::size_t>> runs_left(const ablation_plan& plan,
                                                   const std::vector<plan_state>& states) {
  std::vector<std::size_t> left;
  for (std::size_t k = 0; k < plan.runs.size(); ++k) {
    const planned_run& run = plan.runs[k];
    if (states[k] != plan_state::complete) left.push_back(k);
    if (states[k] == plan_state::missing || !run.begins_with) continue;
    if (states[*run.begins_with] != plan_state::complete)
      return fail(errc::not_found,
                  "{} has begun, but the run that gave it its weights is not complete or not "
                  "there: put {} back, or name another --out",
                  run.name, plan.runs[*run.begins_with].name);
  }
  return left;
}

base::status check_same_run(const planned_run& run, const actors::run_config& there) {
  std::vector<std::string> changes;
  for (const actors::key_difference& one : actors::differences(there, run.config)) {
    if (one.path == "run.folder" || one.path == "observe.log_level" || is_placing(one.path))
      continue;
    if (one.path == "policy.model" && run.begins_with) continue;
    changes.push_back(fmt::format("{} is {} there and {} here", one.path, one.before, one.after));
  }
  if (changes.empty()) return {};
  return fail(errc::invalid_argument,
              "{} is a run already, with other settings ({}): say the same again, or name another "
              "--out",
              run.name, fmt::join(changes, "; "));
}

base::expected<ablation_plan> plan_ablation(const std::vector<actors::stage_plan>& stages,
                                            const std::vector<std::string>& arms,
                                            const std::vector<std::int64_t>& seeds,
                                            std::int64_t budget, const ablation_folders& folders) {
  QUERN_TRY(ablation_stages have, stages_for(stages));
  if (!folders.stage1.empty()) have.sft = nullptr;
  QUERN_CHECK(check_evaluation_set(*have.contrastive));
  ablation_plan plan{arms, seeds, budget, have.contrastive->algorithm.reward, {}};
  if (budget == 0)
    plan.budget = have.contrastive->learner.steps * samples_of_step(*have.contrastive);
  for (const std::string& arm : arms) {
    QUERN_CHECK(check_arm(arm, have, folders));
    if (arm.starts_with("+")) QUERN_CHECK(check_budget(plan.budget, *have.contrastive));
    if (arm == "stage1+2") QUERN_CHECK(check_budget(plan.budget, *have.self_train));
  }
  plan_maker maker(plan, have, folders);
  for (const std::string& arm : arms)
    for (const std::int64_t seed : seeds)
      maker.add(arm, seed);
  return plan;
}

}  // namespace quern::tools
