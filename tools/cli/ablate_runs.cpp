// The runs of an ablation, one after the other.
#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "actors/config/begun_with.hpp"
#include "actors/config/config_file.hpp"
#include "actors/config/preflight.hpp"
#include "actors/orchestrator/task_book.hpp"
#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/pause_signals.hpp"
#include "env/task/task_codec.hpp"
#include "storage/disk_room.hpp"
#include "tools/ablate/room.hpp"
#include "tools/cli/ablate.hpp"
#include "tools/cli/ablate_times.hpp"
#include "tools/cli/ablate_weights.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/tell.hpp"
#include "tools/cli/train_run.hpp"

namespace quern::tools {
namespace {

namespace fs = std::filesystem;

run_outcome make_run(const ablation_plan& plan, std::size_t number, bool begun,
                     const fs::path& out) {
  const fs::path folder = out / plan.runs[number].name;
  if (begun) return go_on_with_run(folder, {}, folder);
  const auto config = beginning_of_run(plan, number, out);
  if (!config) return {report("ablate", config.error())};
  return begin_run(*config, folder, folder);
}

int tell_ended(const fs::path& folder, std::size_t left) {
  tell(stderr, "ended in {}; {} runs are left: the same quern ablate command goes on\n",
       folder.string(), left);
  return paused;
}

}  // namespace

fs::path held_out_suite_of(const fs::path& out) {
  return fs::absolute(out / "held_out_tasks");
}

base::status write_held_out_suite(const actors::task_book& tasks, const fs::path& folder) {
  std::error_code ignored;
  if (fs::exists(folder / "suite.yaml", ignored)) return {};
  QUERN_CHECK(base::make_folders(folder));
  for (const actors::book_task& task : tasks.tasks()) {
    if (!task.held_out) continue;
    QUERN_CHECK(base::write_file_atomic(folder / (task.task->name + ".task.yaml"),
                                        env::to_yaml(*task.task)));
  }
  // All of them for training: a search takes no other. Last: a suite that is there is whole.
  return base::write_file_atomic(folder / "suite.yaml",
                                 "quern_suite: 1\nsplit: {by: task, held_out: []}\n");
}

base::expected<plan_state> state_of_run(const planned_run& run, const fs::path& folder) {
  std::error_code ignored;
  if (!fs::exists(folder / "meta.json", ignored)) return plan_state::missing;
  QUERN_TRY(const actors::run_config there, changed_config(folder, {}, false));
  QUERN_CHECK(check_same_run(run, there));
  return is_complete_run(there, folder) ? plan_state::complete : plan_state::begun;
}

base::expected<actors::run_config> beginning_of_run(const ablation_plan& plan, std::size_t number,
                                                    const fs::path& out) {
  const planned_run& run = plan.runs[number];
  actors::run_config config = run.config;
  config.run.folder = fs::absolute(out / run.name).string();
  if (run.begins_with) {
    QUERN_TRY(const fs::path model, actors::last_model(out / plan.runs[*run.begins_with].name));
    config.policy.model = fs::absolute(model).string();
  }
  if (run.arm == "evolve") {
    actors::run_config drawing = config;
    drawing.tasks.source = "generated";
    QUERN_TRY(const actors::task_book tasks, actors::task_book::make(drawing));
    QUERN_CHECK(write_held_out_suite(tasks, config.tasks.suite));
  }
  return config;
}

base::expected<std::vector<plan_state>> look_at_runs(const ablation_plan& plan,
                                                     const fs::path& out) {
  std::vector<plan_state> states;
  for (const planned_run& run : plan.runs) {
    QUERN_TRY(const plan_state state, state_of_run(run, out / run.name));
    states.push_back(state);
  }
  QUERN_CHECK(runs_left(plan, states));
  return states;
}

namespace {

/// What decides which tasks a run draws, as text. A shared stage and an arm of the same stage may
/// differ in it.
std::string drawing_of(const actors::run_config& config) {
  std::string text = config.env.lane;
  for (const auto& one : actors::differences({}, config))
    if (one.path.starts_with("tasks.")) text += "\n" + one.path + "=" + one.after;
  return text;
}

/// That the runs which are there have the tasks that this build draws: those that are to be made
/// get these, and answers are paired by them.
base::status check_tasks_there(const ablation_plan& plan, const std::vector<plan_state>& states,
                               const fs::path& out) {
  std::map<std::string, actors::task_book> drawn;  // by drawing_of: seeds and arms share one
  for (std::size_t k = 0; k < plan.runs.size(); ++k) {
    const planned_run& run = plan.runs[k];
    // A corpus has its own, and a search those of the suite in OUT.
    if (states[k] == plan_state::missing || run.config.stage == "sft" || run.arm == "evolve")
      continue;
    const std::string drawing = drawing_of(run.config);
    auto found = drawn.find(drawing);
    if (found == drawn.end()) {
      QUERN_TRY(auto tasks, actors::task_book::make(run.config));
      found = drawn.emplace(drawing, std::move(tasks)).first;
    }
    QUERN_TRY(const base::json meta, storage::read_meta({out / run.name}));
    const auto same =
        actors::check_tasks_begun_with(run.config, out / run.name, meta, found->second);
    if (!same) return base::in_context(run.name, same.error());
  }
  return {};
}

}  // namespace

base::status check_runs(const ablation_plan& plan, const std::vector<plan_state>& states,
                        const fs::path& out) {
  QUERN_TRY(const auto left, runs_left(plan, states));
  if (!left.empty()) {
    QUERN_CHECK(check_tasks_there(plan, states, out));
    QUERN_CHECK(check_weights_to_come(plan, states, out));
  }
  // All have the policy of the first one, whose weights or keys say its shape.
  if (const auto shape = actors::policy_shape(plan.runs.front().config))
    QUERN_CHECK(check_disk_of_runs(plan, states, *shape, out, storage::free_bytes(out)));
  std::set<std::string> checked;
  for (std::size_t k = 0; k < plan.runs.size(); ++k) {
    const planned_run& run = plan.runs[k];
    if (states[k] != plan_state::missing || !checked.insert(run.config.run.name).second) continue;
    actors::run_config config = run.config;
    // Its suite is written when it begins; the tasks are these.
    if (run.arm == "evolve") config.tasks.source = "generated";
    const auto before = plan.before(k);
    const auto shape = before.empty() ? base::expected<policy::model_config>()
                                      : actors::policy_shape(plan.runs[before.front()].config);
    const auto how = before.empty() ? actors::run_beginning::fresh : actors::run_beginning::later;
    const auto ready = actors::preflight(config, out / run.name, how, nullptr,
                                         !before.empty() && shape ? &*shape : nullptr);
    if (!ready) return base::in_context(run.name, ready.error());
    if (!run.arm.empty() && std::ranges::none_of(ready->tasks(), &actors::book_task::held_out))
      return base::fail(base::errc::invalid_argument,
                        "{}: no task is held out of {}, but arms are compared on held-out tasks: "
                        "raise tasks.held_out_share, or name a suite that holds some out",
                        run.name, ready->tasks().size());
  }
  return {};
}

int make_runs(const ablation_plan& plan, const std::vector<plan_state>& states, const fs::path& out,
              bool more_follows) {
  // A signal between two runs waits until one of them, or this, looks.
  base::pause_signals signals;
  const base::steady_clock clock;
  const auto left = runs_left(plan, states);
  if (!left) return report("ablate", left.error());
  for (std::size_t at = 0; at < left->size(); ++at) {
    const std::size_t number = (*left)[at];
    const planned_run& run = plan.runs[number];
    const fs::path folder = out / run.name;
    tell(stderr, "run {} of {}: {}\n", plan.runs.size() - left->size() + at + 1, plan.runs.size(),
         run.name);
    const base::nanoseconds_t begun = clock.now_ns();
    const run_outcome end = make_run(plan, number, states[number] == plan_state::begun, out);
    const double seconds = static_cast<double>(clock.now_ns() - begun) * 1e-9;
    if (auto kept = add_seconds(out, run.name, seconds); !kept)
      return report("ablate", kept.error());
    if (end.code == paused) return tell_ended(folder, left->size() - at);
    if (end.code != done) return end.code;
    const auto state = state_of_run(run, folder);
    if (!state) return report("ablate", state.error());
    if (*state != plan_state::complete) return tell_ended(folder, left->size() - at);
    const bool asked = end.asked || signals.arrived(0);
    const std::size_t to_come = left->size() - at - 1;
    if (asked && (to_come > 0 || more_follows)) return tell_ended(folder, to_come);
  }
  return done;
}

}  // namespace quern::tools
