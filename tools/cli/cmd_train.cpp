// quern train and quern resume.
#include <filesystem>

#include <fmt/format.h>

#include "actors/config/begun_with.hpp"
#include "actors/config/config_file.hpp"
#include "actors/config/preflight.hpp"
#include "actors/control.hpp"
#include "actors/decide/step_spans.hpp"
#include "actors/finish.hpp"
#include "actors/prometheus_server.hpp"
#include "actors/sft_run.hpp"
#include "base/log.hpp"
#include "base/pause_signals.hpp"
#include "base/program.hpp"
#include "base/write_signals.hpp"
#include "storage/database.hpp"
#include "storage/run_directory.hpp"
#include "storage/schema.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/find_run.hpp"
#include "tools/cli/parse.hpp"
#include "tools/cli/tell.hpp"
#include "tools/cli/train_run.hpp"
#include "tools/page/page.hpp"

namespace quern::tools {
namespace {

namespace fs = std::filesystem;

base::json meta_of(const actors::run_config& config, const actors::run_inputs& inputs) {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  return {{"build", base::build_id()},
          {"machine", host},
          {"seed", config.run.seed},
          {"stage", config.stage},
          {actors::begun_with_key, actors::to_json(inputs)}};
}

std::int64_t durable_version(const storage::ledger_position& at) {
  return at.checkpoint ? at.checkpoint->version : 0;
}

run_outcome tell_paused(const fs::path& resume_as) {
  tell(stderr, "paused: quern resume {}\n", resume_as.string());
  return {paused, actors::ending::pause};
}

/// The page of a run that has ended. What the run made is complete without it.
void leave_page(const storage::run_paths& paths) {
  const fs::path file = page_file(paths.root);
  const auto written = write_run_page(paths.root, file, lock_holder::this_process);
  if (written) {
    tell(stdout, "page: {}\n", file.string());
  } else {
    base::log_warn("page", "{} was not made: {}; quern report {} makes it", file.string(),
                   written.error().message, paths.root.string());
  }
  // What is told of a run stands before what the next stage or arm says on the other stream.
  std::fflush(stdout);
}

run_outcome tell_end(const fs::path& resume_as, const actors::run_end& end) {
  if (!end.problem.empty()) {
    tell(stderr,
         "quern: {}\nEverything up to the last checkpoint, of a corpus the last record, is "
         "kept: quern resume {}\n",
         end.problem, resume_as.string());
    return {failed};
  }
  if (end.finished) return {done};
  if (end.ending_kind == actors::ending::pause) return tell_paused(resume_as);
  return {done, end.ending_kind};
}

/// From an open run directory to its end.
run_outcome carry_on(const actors::run_config& config, storage::run_directory& run,
                     const actors::task_book& tasks, std::string_view name,
                     const fs::path& resume_as) {
  base::set_log_level(config.observe.log_level);
  // From here on: a signal between the steps and the closing comparison waits for whoever looks
  // next.
  base::pause_signals signals;
  const auto numbers = actors::prometheus_server::start(config, run.paths());
  if (!numbers) return {report(name, numbers.error())};
  if (config.stage == "sft") {
    const auto end = actors::run_sft(config, run);
    if (!end) return {report(name, end.error())};
    run_outcome told = tell_end(resume_as, *end);
    if (told.code == done) leave_page(run.paths());
    if (signals.arrived(0)) told.asked = actors::ending::pause;
    return told;
  }
  const auto goal_is_ahead = [&] {
    const auto at = actors::goal_of(config, run.paths());
    return !at || !at->reached();
  };
  std::optional<actors::ending> asked;
  if (goal_is_ahead()) {
    actors::unfinish_run(run.paths());
    std::error_code ignored;
    fs::remove(page_file(run.paths().root), ignored);
    const auto before = actors::position_of(run.paths());
    const std::int64_t reached = before ? before->version : 0;
    const auto begun = [&](actors::weights_version version, actors::incarnation_id incarnation) {
      if (incarnation > 1 && !actors::is_search(config))
        tell(stderr, "{}\n",
             actors::going_on_text(version, reached, config.learner.steps, incarnation));
    };
    const auto end = actors::run_control(config, run, tasks, begun);
    if (!end) return {report(name, end.error())};
    if (!end->problem.empty()) return tell_end(resume_as, *end);
    if (!end->finished) asked = end->ending_kind;
    if (signals.arrived(0)) asked = actors::ending::pause;
    // Paused in its last step, a run without a closing comparison is complete: there is nothing to
    // resume.
    if (asked == actors::ending::pause && (goal_is_ahead() || config.observe.evaluation_set))
      return tell_paused(resume_as);
  }
  const auto finished = actors::finish_run(config, run, tasks);
  if (!finished) return {report(name, finished.error())};
  if (!*finished) return tell_paused(resume_as);
  tell(stdout, "{}", **finished);
  leave_page(run.paths());
  if (signals.arrived(0)) asked = actors::ending::pause;
  return {done, asked};
}

/// What a person changed in config.yaml since the run was begun or gone on with: as with --set, a
/// fixed key is refused, unless it says where something lies; others are told where `say`.
base::status check_edits(const storage::run_paths& paths, actors::run_config now, bool say) {
  const auto text = storage::recorded_config(paths);
  if (!text) return {};
  // Written by an earlier build, perhaps, whose keys this one refuses: then the file decides.
  auto recorded = actors::load_config_text(*text, "meta.json", {}, actors::config_writer::run);
  if (!recorded) return {};
  actors::make_paths_absolute(*recorded);
  actors::make_paths_absolute(now);
  const std::string file = paths.config().string();
  QUERN_CHECK(actors::check_lengths(*recorded, now));
  // What was moved may be named anew: its contents are what counts (actors::check_begun_with).
  const auto is_place = [](std::string_view key) {
    return key == "policy.model" || key == "policy.recorded" || key == "tasks.suite" ||
           key == "tasks.kernelbench" || key == "run.folder";
  };
  for (const auto& change : actors::differences(*recorded, now)) {
    if (change.changes == actors::key_class::fixed && !is_place(change.path))
      return base::fail(base::errc::invalid_argument,
                        "{} was changed by hand: {} is fixed for the run, it was {} and is {} now; "
                        "set it back, or start a new run for that",
                        file, change.path, change.before, change.after);
    if (say)
      base::log_warn("config", "{} was changed by hand: {}: {} -> {}", file, change.path,
                     change.before, change.after);
  }
  return {};
}

/// A run of an earlier build gets the tables of this one. After all checks: a run that cannot go on
/// stays as it is.
base::status bring_to_schema(const storage::run_paths& paths) {
  QUERN_TRY(const auto kept, storage::database::migrate(paths.database()));
  if (kept)
    tell(stderr,
         "{} was of schema {} and has schema {} now; a copy of it as it was is {}: delete that "
         "when you need earlier builds no more\n",
         paths.database().string(), storage::earlier_schema, storage::schema_version,
         kept->string());
  return {};
}

/// Says where a run stands before it goes on; whether there is something to do.
base::expected<bool> tell_position(const actors::run_config& config,
                                   const storage::run_paths& paths) {
  const std::string folder = paths.root.string();
  if (config.stage == "sft") {
    QUERN_TRY(const auto at, actors::sft_position_of(config, paths));
    tell(stderr, "resuming {} with {} records: {} of {} steps were taken\n", folder, at.records,
         at.step, config.learner.steps);
    return at.step < config.learner.steps;
  }
  QUERN_TRY(const bool untouched, actors::is_untouched(paths));
  if (untouched) {
    tell(stderr, "{} was ended before anything was made: starting from the beginning\n", folder);
    return true;
  }
  QUERN_CHECK(actors::check_ledger(paths));
  QUERN_TRY(const auto at, actors::position_of(paths));
  if (actors::is_search(config)) {
    QUERN_TRY(const auto goal, actors::goal_of(config, paths));
    tell(stderr, "resuming {} with {} of {} evaluations spent, incarnation {}\n", folder, goal.done,
         goal.wanted, at.incarnation + 1);
    return !goal.reached() || !actors::is_finished(config, paths);
  }
  // Which checkpoint can be used is not known before its files have been read.
  tell(stderr, "resuming {}: {} of {} steps were taken\n", folder, at.version,
       config.learner.steps);
  return durable_version(at) < config.learner.steps || !actors::is_finished(config, paths);
}

}  // namespace

run_outcome begin_run(const actors::run_config& config, const fs::path& folder,
                      const fs::path& resume_as, const std::function<base::status()>& made) {
  if (config.learner.steps == 0 && !actors::is_search(config)) {
    tell(stderr, "quern train: learner.steps is 0: there is nothing to do; raise it\n");
    return {nothing};
  }
  const auto tasks = actors::preflight(config, folder, actors::run_beginning::fresh);
  if (!tasks) return {report("train", tasks.error())};
  const auto checked = tried_references(config, *tasks);
  if (!checked) return {report("train", checked.error())};
  tell(stderr, "{}\n", *checked);
  const auto inputs = actors::inputs_of(config, folder, *tasks);
  if (!inputs) return {report("train", inputs.error())};
  auto run =
      storage::run_directory::create(folder, actors::to_yaml(config), meta_of(config, *inputs));
  if (!run) return {report("train", run.error())};
  if (auto told = made(); !told) return {report("train", told.error())};
  tell(stderr, "run {} in {}\n", config.run.name, folder.string());
  return carry_on(config, *run, *tasks, "train", resume_as);
}

base::expected<std::int64_t> durable_steps(const actors::run_config& config,
                                           const fs::path& folder) {
  const storage::run_paths paths{folder};
  if (config.stage == "sft") return actors::durable_sft_step(paths);
  QUERN_TRY(const auto at, actors::position_of(paths));
  return durable_version(at);
}

bool is_complete_run(const actors::run_config& config, const fs::path& folder) {
  const auto goal = actors::goal_of(config, storage::run_paths{folder});
  if (!goal || !goal->reached()) return false;
  return config.stage == "sft" || actors::is_finished(config, storage::run_paths{folder});
}

void tell_schema_stays(const fs::path& folder) {
  const storage::run_paths paths{folder};
  // Stage sft has none, and what cannot be read was said before.
  const auto db = storage::database::open(paths.database(), storage::database::access::read);
  if (!db || (*db)->schema() == storage::schema_version) return;
  tell(stderr,
       "{} is of schema {} and stays so: the run is complete, and only what goes on is brought to "
       "schema {}; commands that read take it as it is\n",
       paths.database().string(), (*db)->schema(), storage::schema_version);
}

base::expected<actors::run_config> changed_config(const fs::path& folder,
                                                  const std::vector<std::string>& settings,
                                                  bool say) {
  const storage::run_paths paths{folder};
  std::error_code ignored;
  if (!fs::exists(paths.config(), ignored) && storage::recorded_config(paths))
    return base::fail(base::errc::not_found,
                      "{} is not there: put it back; the text that it had is \"config\" in {}",
                      paths.config().string(), paths.meta().string());
  QUERN_CHECK(actors::check_settings({}, settings));
  QUERN_TRY(auto before, actors::load_run_config(paths.config(), {}));
  QUERN_TRY(auto config, actors::load_run_config(paths.config(), settings));
  QUERN_CHECK(check_edits(paths, before, say));
  actors::make_paths_absolute(before);
  actors::make_paths_absolute(config);
  for (const auto& change : actors::differences(before, config)) {
    if (change.changes == actors::key_class::fixed)
      return base::fail(base::errc::invalid_argument,
                        "{} is fixed for the run: it is {} and cannot become {}; start a new run "
                        "for that",
                        change.path, change.before, change.after);
    if (say) tell(stderr, "{}: {} -> {}\n", change.path, change.before, change.after);
  }
  QUERN_CHECK(actors::check_lengths(before, config));
  return config;
}

run_outcome go_on_with_run(const fs::path& folder, const std::vector<std::string>& settings,
                           const fs::path& resume_as) {
  auto run = storage::run_directory::open(folder);
  if (!run) return {report("resume", run.error())};
  const auto whole = storage::database::take_back_interrupted(run->paths().database());
  if (!whole) return {report("resume", whole.error())};
  const auto config = changed_config(folder, settings, true);
  if (!config) return {report("resume", config.error())};
  const auto to_do = tell_position(*config, run->paths());
  if (!to_do) return {report("resume", to_do.error())};
  if (!*to_do) tell_schema_stays(run->paths().root);
  if (!*to_do && actors::is_search(*config)) {
    tell(stderr,
         "quern resume: all {} evaluations are spent; raise run.budget_evaluations to go on\n",
         config->run.budget_evaluations);
    return {nothing};
  }
  if (!*to_do) {
    tell(stderr, "quern resume: all {} steps are done; raise learner.steps to go on\n",
         config->learner.steps);
    return {nothing};
  }
  const auto tasks = actors::preflight(*config, folder, actors::run_beginning::resuming);
  if (!tasks) return {report("resume", tasks.error())};
  const auto same = actors::check_begun_with(*config, run->paths().root, run->meta(), *tasks);
  if (!same) return {report("resume", same.error())};
  if (auto migrated = bring_to_schema(run->paths()); !migrated)
    return {report("resume", migrated.error())};
  if (auto written = run->write_config(actors::to_yaml(*config)); !written) {
    return {report("resume", written.error())};
  }
  return carry_on(*config, *run, *tasks, "resume", resume_as);
}

namespace {

/// Each stage with its folder below the chain's.
void place_stages(std::vector<actors::stage_plan>& stages, const fs::path& chain) {
  for (actors::stage_plan& stage : stages)
    stage.config.run.folder = fs::absolute(chain / stage.name).string();
}

int train_chain(std::vector<actors::stage_plan> stages, bool dry_run) {
  const fs::path chain = folder_of(stages.front().config);
  if (actors::is_chain(chain)) {
    tell(stderr,
         "quern train: {} is there already: quern resume {}, or choose another run.folder\n",
         chain.string(), chain.string());
    return usage;
  }
  place_stages(stages, chain);
  // Training keeps the shape that the first stage begins with or makes; where it cannot be read,
  // the check of that stage says why.
  auto shape = actors::policy_shape(stages.front().config);
  for (std::size_t k = 0; k < stages.size(); ++k) {
    const actors::stage_plan& stage = stages[k];
    const fs::path folder = chain / stage.name;
    if (stage.config.stage == "sft") shape = actors::policy_shape(stage.config);
    const policy::model_config* begins_with = k > 0 && shape ? &*shape : nullptr;
    if (dry_run) {
      if (const int code = show_plan(stage.config, folder, begins_with); code != done) return code;
      continue;
    }
    // What is wrong with a later stage is said before the first one takes its time.
    const auto how = k == 0 ? actors::run_beginning::fresh : actors::run_beginning::later;
    const auto tasks = actors::preflight(stage.config, folder, how, nullptr, begins_with);
    if (!tasks) return report("train", tasks.error());
    if (const auto checked = tried_references(stage.config, *tasks); !checked)
      return report("train", checked.error());
  }
  if (dry_run) return done;
  if (auto fits = check_room(stages, chain); !fits) return report("train", fits.error());
  if (auto made = actors::create_chain(chain, stages); !made) return report("train", made.error());
  return run_chain(chain, {});
}

}  // namespace

int cmd_train(int argc, char** argv) {
  base::ignore_broken_pipes();
  CLI::App app("quern train: run an experiment from a configuration");
  std::string file;
  std::vector<std::string> settings;
  std::string only;
  bool dry_run = false;
  app.add_option("config", file, "YAML file; configs/reference.yaml explains every key")
      ->required();
  app.add_option("--set", settings, "KEY=VALUE, over the file; may be repeated")
      ->allow_extra_args(false);
  app.add_option(
         "--stage", only,
         "of the stages in the file this one alone, as a run of its own; one after the first "
         "needs --set policy.model=FOLDER")
      ->check(CLI::IsMember({"sft", "self_train", "contrastive"}));
  app.add_flag("--dry-run", dry_run,
               "print the resolved configuration and the plan, start nothing");
  if (const auto code = parse(app, argc, argv)) return *code;
  auto stages = actors::load_stages(file, settings);
  if (!stages) return report("train", stages.error());
  std::string there;
  for (const actors::stage_plan& stage : *stages)
    there += (there.empty() ? "" : ", ") + stage.config.stage;
  if (!only.empty())
    std::erase_if(*stages, [&](const auto& stage) { return stage.config.stage != only; });
  if (stages->empty()) {
    tell(stderr, "quern train: --stage {}: {} has no such stage; it has {}\n", only, file, there);
    return usage;
  }
  for (actors::stage_plan& stage : *stages)
    actors::make_paths_absolute(stage.config);
  if (stages->size() > 1) return train_chain(std::move(*stages), dry_run);
  const actors::run_config& config = stages->front().config;
  const fs::path folder = folder_of(config);
  if (dry_run) return show_plan(config, folder, nullptr);
  return begin_run(config, folder, folder).code;
}

int cmd_resume(int argc, char** argv) {
  base::ignore_broken_pipes();
  CLI::App app("quern resume: go on with a run that was paused or stopped, or that failed");
  std::string run;
  std::vector<std::string> settings;
  app.add_option("run", run, "folder of a run, or its name below runs/")->required();
  app.add_option("--set", settings,
                 "KEY=VALUE for keys that may change on resume; STAGE.KEY=VALUE for one of several "
                 "stages")
      ->allow_extra_args(false);
  if (const auto code = parse(app, argc, argv)) return *code;
  const auto folder = find_run_folder(run);
  if (!folder) return report("resume", folder.error());
  if (actors::is_chain(*folder)) return run_chain(*folder, settings);
  return go_on_with_run(*folder, settings, *folder).code;
}

}  // namespace quern::tools
