// The stages of a chain, one after the other.
#include <fmt/format.h>

#include "actors/config/config_file.hpp"
#include "actors/config/disk_check.hpp"
#include "actors/config/preflight.hpp"
#include "base/pause_signals.hpp"
#include "storage/disk_room.hpp"
#include "storage/run_directory.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/tell.hpp"
#include "tools/cli/train_run.hpp"

namespace quern::tools {
namespace {

namespace fs = std::filesystem;

/// A stage and what is on the disk of it.
struct chain_stage {
  actors::stage_plan plan;  ///< with the configuration of its run where it has begun
  fs::path folder;
  bool begun = false;
  bool complete = false;
  bool changed = false;  ///< by settings, which are to be written
};

base::expected<std::vector<chain_stage>> look_at(const fs::path& chain) {
  QUERN_TRY(auto plans, actors::read_chain(chain));
  QUERN_CHECK(actors::check_begun_stages(chain, plans));
  std::vector<chain_stage> stages;
  for (actors::stage_plan& plan : plans) {
    chain_stage stage{std::move(plan), {}};
    stage.folder = chain / stage.plan.name;
    stage.begun = fs::exists(stage.folder / "meta.json");
    if (stage.begun) {
      QUERN_TRY(stage.plan.config, changed_config(stage.folder, {}, false));
      stage.complete = is_complete_run(stage.plan.config, stage.folder);
    }
    stages.push_back(std::move(stage));
  }
  return stages;
}

/// Settings over a stage that has begun. A complete one stays as it is unless they give it
/// something to do.
base::status change_run(chain_stage& stage, const chain_stage* next,
                        const std::vector<std::string>& settings) {
  QUERN_TRY(actors::run_config config, changed_config(stage.folder, settings, false));
  if (config.learner.steps == 0)
    return base::fail(base::errc::invalid_argument, "learner.steps is 0, at least 1 is needed");
  const bool complete = is_complete_run(config, stage.folder);
  if (stage.complete && complete) return {};
  if (next != nullptr && next->begun) {
    QUERN_TRY(const std::int64_t steps, durable_steps(config, stage.folder));
    if (steps < config.learner.steps)
      return base::fail(base::errc::invalid_argument,
                        "learner.steps is {} and cannot become {}: stage {} has begun with the "
                        "policy of step {}; {}.KEY=VALUE sets a key of that stage alone",
                        stage.plan.config.learner.steps, config.learner.steps, next->plan.name,
                        steps, next->plan.config.stage);
  }
  stage.changed = !actors::differences(stage.plan.config, config).empty();
  stage.plan.config = std::move(config);
  stage.complete = complete;
  return {};
}

/// All settings of all stages, before one of them goes on; nothing is written.
base::status change(std::vector<chain_stage>& stages, const fs::path& chain,
                    const std::vector<std::string>& settings) {
  std::vector<actors::stage_plan> plans;
  for (const chain_stage& stage : stages)
    plans.push_back(stage.plan);
  QUERN_CHECK(actors::check_settings(plans, settings));
  for (std::size_t k = 0; k < stages.size(); ++k) {
    chain_stage& stage = stages[k];
    const auto own = actors::settings_of_stage(settings, stage.plan.config.stage);
    const auto changed = [&]() -> base::status {
      if (stage.begun)
        return change_run(stage, k + 1 < stages.size() ? &stages[k + 1] : nullptr, own);
      QUERN_CHECK(actors::change_plan(stage.plan, own));
      stage.changed = !actors::differences(plans[k].config, stage.plan.config).empty();
      return {};
    };
    if (auto valid = changed(); !valid)
      return base::in_context("stage " + stage.plan.name, std::move(valid.error()));
  }
  const auto shape = actors::policy_shape(stages.front().plan.config);
  for (std::size_t k = 0; k < stages.size(); ++k) {
    const chain_stage& stage = stages[k];
    if (!stage.changed || stage.complete) continue;
    const auto how = stage.begun ? actors::run_beginning::resuming
                     : k == 0    ? actors::run_beginning::fresh
                                 : actors::run_beginning::later;
    const bool later = how == actors::run_beginning::later;
    const auto ready = actors::preflight(stage.plan.config, stage.folder, how, nullptr,
                                         later && shape ? &*shape : nullptr);
    if (!ready) return base::in_context("stage " + stage.plan.name, ready.error());
  }
  plans.clear();
  for (const chain_stage& stage : stages)
    plans.push_back(stage.plan);
  return check_room(plans, chain);
}

/// So that they hold whenever the stage begins or goes on.
base::status keep_changes(const std::vector<chain_stage>& stages, const fs::path& chain,
                          const std::vector<actors::run_config>& before) {
  // From the last one that has begun: who holds its lock works on the chain, so it is kept until
  // all is written.
  std::vector<storage::run_directory> held;
  for (auto stage = stages.rbegin(); stage != stages.rend(); ++stage) {
    if (!stage->begun || (!held.empty() && !stage->changed)) continue;
    QUERN_TRY(auto run, storage::run_directory::open(stage->folder));
    if (stage->changed) QUERN_CHECK(run.write_config(actors::to_yaml(stage->plan.config)));
    held.push_back(std::move(run));
  }
  for (std::size_t k = 0; k < stages.size(); ++k) {
    if (!stages[k].changed) continue;
    if (!stages[k].begun) QUERN_CHECK(actors::write_plan(chain, stages[k].plan));
    for (const auto& change : actors::differences(before[k], stages[k].plan.config))
      tell(stderr, "stage {}: {}: {} -> {}\n", stages[k].plan.name, change.path, change.before,
           change.after);
  }
  return {};
}

base::status take_settings(std::vector<chain_stage>& stages, const fs::path& chain,
                           const std::vector<std::string>& settings) {
  if (settings.empty()) return {};
  std::vector<actors::run_config> before;
  for (const chain_stage& stage : stages)
    before.push_back(stage.plan.config);
  QUERN_CHECK(change(stages, chain, settings));
  return keep_changes(stages, chain, before);
}

/// A stage that is not complete, from where it stands. `before`: the run of the stage before it.
run_outcome go_on_with_stage(const chain_stage& stage, const fs::path& before,
                             const fs::path& chain) {
  if (stage.begun) return go_on_with_run(stage.folder, {}, chain);
  actors::run_config config = stage.plan.config;
  if (!before.empty()) {
    const auto model = actors::last_model(before);
    if (!model) return {report("train", model.error())};
    config.policy.model = model->string();
  }
  tell(stderr, "stage {} begins\n", stage.plan.name);
  return begin_run(config, stage.folder, chain,
                   [&] { return actors::mark_begun(chain, stage.plan.name); });
}

}  // namespace

base::status check_room(const std::vector<actors::stage_plan>& stages, const fs::path& chain) {
  // Where the shape cannot be read, the check of the first stage says why.
  const auto shape = actors::policy_shape(stages.front().config);
  if (!shape) return {};
  return actors::check_disk_of_chain(stages, *shape, chain, storage::free_bytes(chain));
}

int run_chain(const fs::path& chain, const std::vector<std::string>& settings) {
  // A signal between two stages waits until one of them, or this, looks.
  base::pause_signals signals;
  auto stages = look_at(chain);
  if (!stages) return report("resume", stages.error());
  if (auto taken = take_settings(*stages, chain, settings); !taken)
    return report("resume", taken.error());
  std::vector<actors::stage_plan> plans;
  for (const chain_stage& stage : *stages)
    plans.push_back(stage.plan);
  if (auto fits = check_room(plans, chain); !fits) return report("resume", fits.error());
  fs::path before;
  bool worked = false;
  for (const chain_stage& stage : *stages) {
    if (stage.complete) {
      tell(stderr, "stage {} is complete\n", stage.plan.name);
      tell_schema_stays(stage.folder);
      before = stage.folder;
      continue;
    }
    worked = true;
    run_outcome end = go_on_with_stage(stage, before, chain);
    if (end.code != done) return end.code;
    const auto config = changed_config(stage.folder, {}, false);
    if (!config) return report("resume", config.error());
    if (!is_complete_run(*config, stage.folder)) {
      tell(stderr, "stopped in stage {}: quern resume {}\n", stage.plan.name, chain.string());
      return end.code;
    }
    before = stage.folder;
    if (&stage == &stages->back()) return done;
    if (signals.arrived(0)) end.asked = actors::ending::pause;
    if (!end.asked) continue;
    const bool pause = *end.asked == actors::ending::pause;
    tell(stderr, "{} after stage {}: quern resume {}\n", pause ? "paused" : "stopped",
         stage.plan.name, chain.string());
    return pause ? paused : done;
  }
  if (worked || settings.empty()) return done;
  tell(stderr,
       "quern resume: all stages are complete; raise {}.learner.steps to go on with the last "
       "one\n",
       stages->back().plan.config.stage);
  return nothing;
}

}  // namespace quern::tools
