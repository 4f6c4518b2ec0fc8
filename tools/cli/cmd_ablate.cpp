// quern ablate: what each stage and each choice of exemplars brings, at equal evaluations.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/config/config_file.hpp"
#include "base/file.hpp"
#include "base/write_signals.hpp"
#include "tools/cli/ablate.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/parse.hpp"
#include "tools/cli/tell.hpp"
#include "tools/cli/train_run.hpp"

namespace quern::tools {
namespace {

namespace fs = std::filesystem;

struct ablate_arguments {
  std::string config, arms, seeds, out;
  std::int64_t budget = 0;  ///< 0: that of the configuration
  std::vector<std::string> settings;
  bool dry_run = false;
};

struct planned_ablation {
  ablation_plan plan;
  fs::path out;
};

base::expected<planned_ablation> plan_of(const ablate_arguments& a) {
  QUERN_TRY(const auto arms, parse_arms(a.arms));
  QUERN_TRY(const auto seeds, parse_seeds(a.seeds));
  QUERN_TRY(auto stages, actors::load_stages(a.config, a.settings));
  for (actors::stage_plan& stage : stages)
    actors::make_paths_absolute(stage.config);
  planned_ablation made;
  made.out = a.out.empty() ? fs::path("runs") / "ablate" / stages.front().config.run.name
                           : fs::path(a.out);
  QUERN_TRY(made.plan,
            plan_ablation(stages, arms, seeds, a.budget, held_out_suite_of(made.out).string()));
  return made;
}

void print_runs(const planned_ablation& of, const std::vector<plan_state>& states) {
  tell(stdout, "{} runs in {}, {} evaluations of each arm's own\n", of.plan.runs.size(),
       of.out.string(), of.plan.budget);
  for (std::size_t k = 0; k < of.plan.runs.size(); ++k) {
    const planned_run& run = of.plan.runs[k];
    std::string line = fmt::format("  {:<32} {:>8} evaluations", run.name, run.evaluations);
    if (run.begins_with) line += ", after " + of.plan.runs[*run.begins_with].name;
    if (states[k] == plan_state::begun) line += ", begun";
    if (states[k] == plan_state::complete) line += ", complete";
    tell(stdout, "{}\n", line);
  }
}

base::status keep_table(const planned_ablation& of) {
  QUERN_TRY(const auto arms, read_arms(of.plan, of.out));
  const ablation_table table = make_table(arms, 1);
  base::ordered_json written = to_json(table);
  written["budget"] = of.plan.budget;
  written["seeds"] = of.plan.seeds;
  written["reward"] = of.plan.reward;
  const std::string text = fmt::format("seeds {}; {} evaluations of each arm's own\n\n",
                                       fmt::join(of.plan.seeds, ", "), of.plan.budget) +
                           to_text(table);
  const fs::path file = of.out / "ablation.json";
  QUERN_CHECK(base::write_file_atomic(file, base::dump_pretty(written) + "\n"));
  QUERN_CHECK(base::write_file_atomic(of.out / "ablation.txt", text));
  tell(stdout, "\n{}\nfigures for programs: {}\n", text, file.string());
  return {};
}

int ablate(const ablate_arguments& a) {
  const auto planned = plan_of(a);
  if (!planned) return report("ablate", planned.error());
  const auto states = look_at_runs(planned->plan, planned->out);
  if (!states) return report("ablate", states.error());
  if (auto ready = check_runs(planned->plan, *states, planned->out); !ready)
    return report("ablate", ready.error());
  print_runs(*planned, *states);
  if (a.dry_run) return done;
  if (const int code = make_runs(planned->plan, *states, planned->out); code != done) return code;
  const auto kept = keep_table(*planned);
  return kept ? done : report("ablate", kept.error());
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
  app.add_option("--set", a.settings, "KEY=VALUE, over the file; may be repeated")
      ->allow_extra_args(false);
  app.add_flag("--dry-run", a.dry_run, "print the runs and what of them is there, start nothing");
  if (const auto code = parse(app, argc, argv)) return *code;
  return ablate(a);
}

}  // namespace quern::tools
