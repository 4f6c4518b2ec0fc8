// What the runs of an ablation have left on the disk.
#include <set>

#include <fmt/format.h>

#include "actors/finish.hpp"
#include "actors/orchestrator/task_book.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "storage/ledger.hpp"
#include "storage/run_directory.hpp"
#include "tools/cli/ablate.hpp"
#include "tools/cli/ablate_times.hpp"

namespace quern::tools {
namespace {

namespace fs = std::filesystem;

struct ablation_ledger {
  std::unique_ptr<storage::database> db;
  std::unique_ptr<storage::ledger> rows;
};

base::expected<ablation_ledger> ledger_of(const fs::path& folder) {
  ablation_ledger made;
  QUERN_TRY(made.db, storage::database::open(storage::run_paths{folder}.database(),
                                             storage::database::access::read));
  QUERN_TRY(made.rows, storage::ledger::open(*made.db));
  return made;
}

/// Samples that were judged; none in stage sft, whose corpus is no answer of a policy.
base::expected<std::int64_t> evaluations_of(const planned_run& run, const fs::path& folder) {
  if (run.config.stage == "sft") return 0;
  QUERN_TRY(const auto from, ledger_of(folder));
  return from.rows->judged();
}

/// Answers to the held-out prompts, and those to prompts that showed kernels.
base::status add_evaluation_set_answers(const fs::path& folder, const env::reward_function& reward,
                                        const measured_again& again, bool learnt, arm_result& to) {
  QUERN_TRY(const base::json written, evaluation_set_of(folder));
  QUERN_TRY(to.answers, answers_of_evaluation_set(written, reward, again));
  QUERN_TRY(to.shown, shown_answers_of_evaluation_set(written, reward, again));
  if (!learnt) return {};
  QUERN_TRY(to.before, answers_of_evaluation_set(written, reward, again, weights::first));
  return {};
}

base::expected<std::vector<held_out_answer>> search_answers(const planned_run& run,
                                                            const fs::path& folder,
                                                            const env::reward_function& reward) {
  actors::run_config drawing = run.config;
  drawing.tasks.source = "generated";
  QUERN_TRY(const actors::task_book tasks, actors::task_book::make(drawing));
  std::vector<std::string> held_out;
  for (const actors::book_task& task : tasks.tasks())
    if (task.held_out) held_out.push_back(task.id);
  std::vector<env::verdict> verdicts;
  QUERN_TRY(const auto from, ledger_of(folder));
  QUERN_CHECK(from.rows->visit_judged([&](const storage::stored_verdict& one) -> base::status {
    QUERN_TRY(env::verdict value, env::parse_verdict(one.row.json));
    verdicts.push_back(std::move(value));
    return {};
  }));
  return last_answers(
      verdicts, prompts_of_tasks(held_out, run.config.observe.evaluation_set_held_out), reward);
}

base::expected<arm_result> read_result(const ablation_plan& plan, std::size_t number,
                                       const fs::path& out,
                                       const std::map<std::string, double>& seconds,
                                       const measured_again& again) {
  const planned_run& run = plan.runs[number];
  const fs::path folder = out / run.name;
  arm_result made;
  const auto took = [&](const std::string& name) {
    const auto known = seconds.find(name);
    made.has_times = made.has_times && known != seconds.end();
    return known == seconds.end() ? 0 : known->second;
  };
  made.seed = run.seed;
  const std::string by =
      again.baseline().empty() ? plan.reward : reward_over(plan.reward, again.baseline());
  QUERN_TRY(const auto reward, env::find_reward(by));
  if (run.arm == "evolve") {
    QUERN_TRY(made.answers, search_answers(run, folder, reward));
  } else {
    // An arm that is given no evaluations does not learn.
    const bool learnt = run.evaluations > 0 && again.baseline().empty();
    if (auto read = add_evaluation_set_answers(folder, reward, again, learnt, made); !read)
      return base::in_context(run.name, read.error());
  }
  QUERN_TRY(made.evaluations, evaluations_of(run, folder));
  made.seconds = took(run.name);
  for (const std::size_t stage : plan.before(number)) {
    const planned_run& shared = plan.runs[stage];
    QUERN_TRY(const std::int64_t evaluations, evaluations_of(shared, out / shared.name));
    made.shared_evaluations += evaluations;
    made.shared_seconds += took(shared.name);
  }
  return made;
}

}  // namespace

base::expected<base::json> evaluation_set_of(const fs::path& folder) {
  const fs::path file = actors::evaluation_set_file({folder});
  QUERN_TRY(const std::string text, base::read_file(file));
  auto written = base::parse_json(text);
  if (written) return written;
  return base::fail(base::errc::corrupt,
                    "{}: {}; remove the file, and the same command without --so-far measures the "
                    "run's first and last weights anew",
                    file.string(), written.error().message);
}

std::vector<std::string> runs_beside(const ablation_plan& plan, const fs::path& out) {
  std::set<std::string> planned, beside;
  for (const planned_run& run : plan.runs)
    planned.insert(run.name);
  for (const std::string_view arm : arm_names) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(out / arm_folder(arm), ignored)) {
      const std::string name = arm_folder(arm) + "/" + entry.path().filename().string();
      if (!planned.contains(name) && fs::exists(entry.path() / "meta.json", ignored))
        beside.insert(name);
    }
  }
  return {beside.begin(), beside.end()};
}

base::expected<std::vector<ablation_arm>> read_arms(const ablation_plan& plan,
                                                    const std::vector<plan_state>& states,
                                                    const fs::path& out,
                                                    const measured_again& again) {
  const auto seconds = read_seconds(out);
  std::vector<ablation_arm> arms;
  for (const std::string& name : plan.arms) {
    if (!again.baseline().empty() && name == "evolve") continue;
    ablation_arm arm{name, {}};
    for (const std::int64_t seed : plan.seeds) {
      const std::size_t number = plan.run_of(name, seed);
      if (states[number] != plan_state::complete) continue;
      QUERN_TRY(auto result, read_result(plan, number, out, seconds, again));
      arm.seeds.push_back(std::move(result));
    }
    if (!arm.seeds.empty()) arms.push_back(std::move(arm));
  }
  return arms;
}

}  // namespace quern::tools
