#include "tools/cli/ablate_over.hpp"

#include <algorithm>
#include <csignal>
#include <map>
#include <set>

#include <fmt/format.h>

#include "actors/config/config_file.hpp"
#include "actors/config/device_class.hpp"
#include "base/file.hpp"
#include "base/pause_signals.hpp"
#include "base/program.hpp"
#include "base/subprocess.hpp"
#include "storage/jsonl.hpp"
#include "tools/bench/results.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/tell.hpp"

namespace quern::tools {
namespace {

namespace fs = std::filesystem;

constexpr int look_at_bench_every_ms = 100;

fs::path over_folder(const fs::path& out, const std::string& baseline) {
  return out / ("over_" + baseline);
}

fs::path results_over(const fs::path& out, const std::string& baseline) {
  return over_folder(out, baseline) / "results.jsonl";
}

/// The configuration that held-out tasks are drawn and measured by: that of any arm.
base::expected<const actors::run_config*> config_of_arms(const ablation_plan& plan) {
  const auto arm = std::ranges::find_if(
      plan.runs, [](const planned_run& one) { return !one.arm.empty() && one.arm != "evolve"; });
  if (arm == plan.runs.end())
    return base::fail(base::errc::invalid_argument,
                      "--over: evolve is the only arm, and its answers are not measured again: "
                      "name another arm");
  return &arm->config;
}

/// Lines for `quern bench`: each right kernel of a task once.
base::expected<std::string> candidates_of(const ablation_plan& plan,
                                          const std::vector<plan_state>& states,
                                          const fs::path& out) {
  std::map<std::pair<std::string, std::string>, std::string> kernels;
  for (std::size_t k = 0; k < plan.runs.size(); ++k) {
    const planned_run& run = plan.runs[k];
    if (run.arm.empty() || run.arm == "evolve" || states[k] != plan_state::complete) continue;
    auto written = evaluation_set_of(out / run.name);
    if (!written) return base::in_context(run.name, written.error());
    auto answers = right_answers_of_evaluation_set(*written);
    if (!answers) return base::in_context(run.name, answers.error());
    for (right_answer& one : *answers)
      kernels.try_emplace({one.task, one.hash}, std::move(one.source));
  }
  std::string lines;
  for (const auto& [key, source] : kernels)
    lines +=
        base::dump(base::json{{"task", key.first}, {"id", key.second}, {"source", source}}) + "\n";
  return lines;
}

base::expected<std::vector<std::string>> bench_command(const actors::run_config& config,
                                                       const fs::path& out,
                                                       const std::string& baseline) {
  QUERN_TRY(const fs::path program, base::sibling_program("quern"));
  std::vector<std::string> argv = {program.string(),
                                   "bench",
                                   held_out_suite_of(out).string(),
                                   "--candidates",
                                   (over_folder(out, baseline) / "answers.jsonl").string(),
                                   "--out",
                                   results_over(out, baseline).string(),
                                   "--baseline",
                                   baseline,
                                   "--protocol",
                                   config.env.protocol,
                                   "--budget-s",
                                   fmt::format("{}", config.env.time_budget_s)};
  if (config.env.sandbox == "best_effort") argv.emplace_back("--best-effort");
  if (actors::on_gpus(config)) {
    argv.emplace_back("--gpus");
    argv.push_back(config.env.gpus);
  }
  return argv;
}

}  // namespace

base::status check_over(const ablation_plan& plan, const std::string& baseline) {
  QUERN_TRY(const actors::run_config* of_arms, config_of_arms(plan));
  actors::run_config config = *of_arms;
  config.env.baseline = baseline;
  config.algorithm.reward = reward_over(plan.reward, "");
  // It may begin with the weights of a run that is to come.
  if (config.policy.model.empty()) config.policy.model = "later";
  if (auto fits = actors::check_config(config); !fits)
    return base::in_context("--over", fits.error());
  return {};
}

base::expected<int> measure_over(const ablation_plan& plan, const std::vector<plan_state>& states,
                                 const fs::path& out, const std::string& baseline) {
  QUERN_TRY(const actors::run_config* config, config_of_arms(plan));
  QUERN_CHECK(write_held_out_suite(*config, held_out_suite_of(out)));
  QUERN_TRY(const std::string candidates, candidates_of(plan, states, out));
  const fs::path folder = over_folder(out, baseline);
  if (candidates.empty())
    return base::fail(base::errc::not_found,
                      "--over: no complete run in {} has a right answer to measure again",
                      out.string());
  QUERN_CHECK(base::make_folders(folder));
  QUERN_CHECK(base::write_file_atomic(folder / "answers.jsonl", candidates));
  tell(stderr, "measuring {} kernels over {}: {}\n",
       std::count(candidates.begin(), candidates.end(), '\n'), baseline, (folder / "log").string());
  base::pause_signals signals;
  base::subprocess_spec spec;
  QUERN_TRY(spec.argv, bench_command(*config, out, baseline));
  spec.log = folder / "log";
  QUERN_TRY(base::subprocess bench, base::subprocess::start(spec));
  while (true) {
    if (const auto end = bench.poll()) return end->signal == 0 ? end->code : int{failed};
    if (signals.arrived(look_at_bench_every_ms)) bench.send_signal(SIGINT);
  }
}

base::expected<measured_over> read_measured_over(const fs::path& out, const std::string& baseline) {
  const fs::path file = results_over(out, baseline);
  measured_over made{baseline, {}};
  bool header = true;
  QUERN_CHECK(storage::read_jsonl(file, [&](const base::json& value) -> base::status {
    if (header) {
      header = false;
      QUERN_TRY(const bench_header unused, header_from_json(value));
      static_cast<void>(unused);
      return {};
    }
    QUERN_TRY(bench_result one, result_from_json(value));
    made.again.add(one.task, one.candidate, std::move(one.verdict));
    return {};
  }));
  return made;
}

}  // namespace quern::tools
