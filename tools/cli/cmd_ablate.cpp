// quern ablate: what each stage and each choice of exemplars brings, at equal evaluations.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/config/config_file.hpp"
#include "actors/config/preflight.hpp"
#include "base/file.hpp"
#include "base/write_signals.hpp"
#include "env/judge/core_lock.hpp"
#include "storage/run_lock.hpp"
#include "tools/ablate/exemplar_table.hpp"
#include "tools/cli/ablate_over.hpp"
#include "tools/cli/ablate_weights.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/parse.hpp"
#include "tools/cli/tell.hpp"
#include "tools/cli/train_run.hpp"

namespace quern::tools {
namespace {

namespace fs = std::filesystem;

struct ablate_arguments {
  std::string config, arms, seeds, out, vanilla, stage1, gpus;
  std::string over;         ///< a baseline that right answers are measured over again; empty: none
  std::int64_t budget = 0;  ///< 0: that of the configuration
  std::int64_t jobs = 1;
  std::vector<std::string> settings;
  bool dry_run = false, so_far = false;
};

struct planned_ablation {
  ablation_plan plan;
  fs::path out;
  std::vector<ablation_place> places;  ///< none: one run after the other, wherever this one runs
};

base::expected<std::vector<ablation_place>> places_for(const ablate_arguments& a) {
  if (a.jobs == 1 && a.gpus.empty()) return std::vector<ablation_place>{};
  QUERN_TRY(const std::vector<int> processors, env::allowed_cores());
  if (a.gpus.empty()) return places_on(processors, a.jobs);
  QUERN_TRY(const std::vector<int> gpus, parse_gpus(a.gpus));
  return places_on(processors, gpus);
}

constexpr key_of_option keys_of_options[] = {{"run.seed", "--seeds"}, {"run.folder", "--out"}};

/// The policy of arm vanilla has to be there where runs are left, whether that arm is asked for or
/// not.
base::status check_vanilla(const std::string& folder, actors::run_config config) {
  if (folder.empty()) return {};
  config.policy.model = folder;
  if (const auto shape = actors::policy_shape(config); !shape)
    return base::fail(base::errc::invalid_argument, "--vanilla: {}", shape.error().message);
  return {};
}

base::expected<planned_ablation> plan_of(const ablate_arguments& a) {
  QUERN_TRY(const auto arms, parse_arms(a.arms));
  QUERN_TRY(const auto seeds, parse_seeds(a.seeds));
  QUERN_CHECK(refuse_keys_of_options(a.settings, keys_of_options));
  QUERN_TRY(auto stages, actors::load_stages(a.config, a.settings));
  for (actors::stage_plan& stage : stages)
    actors::make_paths_absolute(stage.config);
  planned_ablation made;
  made.out = a.out.empty() ? fs::path("runs") / "ablate" / stages.front().config.run.name
                           : fs::path(a.out);
  const auto absolute = [](const std::string& folder) {
    return folder.empty() ? folder : fs::absolute(folder).string();
  };
  const ablation_folders folders{held_out_suite_of(made.out).string(), absolute(a.vanilla),
                                 absolute(a.stage1)};
  QUERN_TRY(made.plan, plan_ablation(stages, arms, seeds, a.budget, folders));
  QUERN_TRY(made.places, places_for(a));
  for (const planned_run& run : made.plan.runs)
    QUERN_CHECK(check_places(made.places, run.config));
  return made;
}

void print_runs(const planned_ablation& of, const std::vector<plan_state>& states) {
  tell(stdout, "{} runs in {}, {} evaluations of each arm's own\n", of.plan.runs.size(),
       of.out.string(), of.plan.budget);
  for (std::size_t k = 0; k < of.plan.runs.size(); ++k) {
    const planned_run& run = of.plan.runs[k];
    std::string line = fmt::format("  {:<32} {:>8} evaluations", run.name, run.evaluations);
    if (run.evaluations == 0 && !run.arm.empty()) line += " and one step that changes nothing";
    if (run.begins_with) line += ", after " + of.plan.runs[*run.begins_with].name;
    if (states[k] == plan_state::begun) line += ", begun";
    if (states[k] == plan_state::complete) line += ", complete";
    tell(stdout, "{}\n", line);
  }
}

/// Names of the arms' runs that are not complete.
std::vector<std::string> missing_runs(const ablation_plan& plan,
                                      const std::vector<plan_state>& states) {
  std::vector<std::string> names;
  for (std::size_t k = 0; k < plan.runs.size(); ++k)
    if (!plan.runs[k].arm.empty() && states[k] != plan_state::complete)
      names.push_back(plan.runs[k].name);
  return names;
}

/// The table of the runs that are complete, in files of its own for each baseline.
base::status keep_table(const planned_ablation& of, const measured_again& over) {
  QUERN_TRY(const auto states, look_at_runs(of.plan, of.out));
  QUERN_CHECK(check_weights_of_table(of.plan, states, of.out));
  QUERN_TRY(const auto arms, read_arms(of.plan, states, of.out, over));
  if (arms.empty())
    return base::fail(base::errc::not_found,
                      "{} has no complete run of an arm, of which a table could be made: make the "
                      "runs, without --so-far",
                      of.out.string());
  const ablation_table table = make_table(arms, 1);
  const auto exemplars = exemplar_rows(arms, 1);
  const auto missing = missing_runs(of.plan, states);
  const auto beside = runs_beside(of.plan, of.out);
  base::ordered_json written = to_json(table);
  written["exemplars"] = to_json(exemplars);
  written["missing"] = missing;
  written["beside"] = beside;
  written["budget"] = of.plan.budget;
  written["seeds"] = of.plan.seeds;
  const std::string& baseline = over.baseline();
  written["reward"] = baseline.empty() ? of.plan.reward : reward_over(of.plan.reward, baseline);
  if (!baseline.empty()) written["over"] = baseline;
  const std::string ending = baseline.empty() ? "" : "_over_" + baseline;
  const std::string by =
      baseline.empty() ? "" : "; right answers were measured again, over " + baseline;
  const std::string text =
      fmt::format("seeds {}; {} evaluations of each arm's own{}\n\n",
                  fmt::join(of.plan.seeds, ", "), of.plan.budget, by) +
      to_text(table) + to_text(exemplars) +
      (missing.empty()
           ? std::string()
           : fmt::format("\nnot complete, and left out: {}\n", fmt::join(missing, ", "))) +
      (beside.empty() ? std::string()
                      : fmt::format("\nof other arms or seeds, and not in this "
                                    "table: {}\n",
                                    fmt::join(beside, ", ")));
  const fs::path file = of.out / ("ablation" + ending + ".json");
  QUERN_CHECK(base::write_file_atomic(file, base::dump_pretty(written) + "\n"));
  QUERN_CHECK(base::write_file_atomic(of.out / ("ablation" + ending + ".txt"), text));
  tell(stdout, "\n{}\nfigures for programs: {}\n", text, file.string());
  return {};
}

/// The table over the runs' own baseline, then that over another one where it was asked for. That
/// one is made where each right answer was measured: what is missing would count as wrong.
int keep_tables(const planned_ablation& of, const ablate_arguments& a) {
  if (auto kept = keep_table(of, {}); !kept) return report("ablate", kept.error());
  if (a.over.empty()) return done;
  const auto states = look_at_runs(of.plan, of.out);
  if (!states) return report("ablate", states.error());
  const std::string& gpus = a.gpus.empty() ? of.plan.runs.front().config.env.gpus : a.gpus;
  const auto code = measure_over(of.plan, *states, of.out, a.over, gpus);
  if (!code) return report("ablate", code.error());
  if (*code == paused)
    tell(stderr, "measuring over {} has stopped; the same command goes on\n", a.over);
  if (*code != done) return *code;
  const auto measured = read_measured_over(of.out, a.over);
  if (!measured) return report("ablate", measured.error());
  const auto kept = keep_table(of, *measured);
  return kept ? done : report("ablate", kept.error());
}

int ablate(const ablate_arguments& a) {
  const auto planned = plan_of(a);
  if (!planned) return report("ablate", planned.error());
  if (!a.over.empty())
    if (auto can = check_over(planned->plan, a.over); !can) return report("ablate", can.error());
  const auto states = look_at_runs(planned->plan, planned->out);
  if (!states) return report("ablate", states.error());
  std::error_code ignored;
  if (a.so_far && (a.over.empty() || !fs::exists(planned->out, ignored)))
    return keep_tables(*planned, a);
  if (a.so_far) {
    // It measures, and writes in OUT.
    const auto lock = storage::run_lock::take(planned->out / "LOCK");
    return lock ? keep_tables(*planned, a) : report("ablate", lock.error());
  }
  const bool some_left =
      std::ranges::any_of(*states, [](plan_state one) { return one != plan_state::complete; });
  if (some_left)
    if (auto there = check_vanilla(a.vanilla, planned->plan.runs.back().config); !there)
      return report("ablate", there.error());
  if (auto ready = check_runs(planned->plan, *states, planned->out); !ready)
    return report("ablate", ready.error());
  print_runs(*planned, *states);
  if (a.dry_run) return done;
  // Two of them would begin the same runs, on the same processors.
  if (auto made = base::make_folders(planned->out); !made) return report("ablate", made.error());
  const auto lock = storage::run_lock::take(planned->out / "LOCK");
  if (!lock) return report("ablate", lock.error());
  // Another one may have ended since they were looked at.
  const auto now = look_at_runs(planned->plan, planned->out);
  if (!now) return report("ablate", now.error());
  const bool more = !a.over.empty();
  const int code =
      planned->places.empty()
          ? make_runs(planned->plan, *now, planned->out, more)
          : make_runs_side_by_side(planned->plan, *now, planned->out, planned->places, more);
  return code == done ? keep_tables(*planned, a) : code;
}

}  // namespace

int cmd_ablate(int argc, char** argv) {
  base::ignore_broken_pipes();
  CLI::App app(
      "quern ablate: trains the arms of an ablation at equal evaluations, each with every seed, "
      "and compares them on held-out tasks. Ctrl-C pauses; the same command goes on");
  ablate_arguments a;
  app.add_option("config", a.config, "YAML file, such as configs/ablation_quick.yaml")->required();
  app.add_option("--arms", a.arms,
                 fmt::format("with commas between: {}", fmt::join(arm_names, ", ")))
      ->required();
  app.add_option("--seeds", a.seeds, "whole numbers with commas between, such as 1,2,3")
      ->required();
  app.add_option("--budget", a.budget,
                 "evaluations of each arm's own; default: steps times samples of a step of stage "
                 "contrastive")
      ->check(whole_within(1, 1'000'000'000));
  app.add_option("--out", a.out, "folder of all runs; default: runs/ablate/NAME");
  app.add_option(
      "--vanilla", a.vanilla,
      "folder of the policy of arm vanilla; policy.model is fine-tuned already then, and "
      "is stage1");
  app.add_option("--stage1", a.stage1,
                 "folder of a fine-tuned policy, which takes the place of stage sft or of "
                 "policy.model");
  auto* jobs = app.add_option("--jobs", a.jobs,
                              "runs made side by side, each with an equal part of the processors "
                              "as its own; default: one after the other")
                   ->check(whole_within(1, 1024));
  app.add_option("--gpus", a.gpus,
                 "GPUs that runs are made on side by side, one a GPU, which has all of its roles, "
                 "with an equal part of the processors: 0,1,...")
      ->excludes(jobs);
  app.add_option("--over", a.over,
                 "a baseline: right answers are measured over it again, by quern bench, for a "
                 "second table");
  app.add_option("--set", a.settings, "KEY=VALUE, over the file; may be repeated")
      ->allow_extra_args(false);
  auto* dry_run = app.add_flag("--dry-run", a.dry_run,
                               "print the runs and what of them is there, start nothing");
  app.add_flag("--so-far", a.so_far, "make the table of the runs that are complete, begin no run")
      ->excludes(dry_run);
  if (const auto code = parse(app, argc, argv)) return *code;
  return ablate(a);
}

}  // namespace quern::tools
