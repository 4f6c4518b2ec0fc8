#include "tools/cli/ablate_over.hpp"

#include <algorithm>
#include <csignal>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "actors/config/config_file.hpp"
#include "actors/config/device_class.hpp"
#include "actors/orchestrator/task_book.hpp"
#include "base/file.hpp"
#include "base/pause_signals.hpp"
#include "base/program.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "env/task/task.hpp"
#include "storage/jsonl.hpp"
#include "tools/bench/results.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/tell.hpp"

namespace quern::tools {
namespace {

namespace fs = std::filesystem;

constexpr int look_at_bench_every_ms = 100;

/// The files of one baseline.
struct over_files {
  over_files(const fs::path& out, const std::string& baseline)
      : folder(fs::absolute(out / ("over_" + baseline))) {}
  fs::path folder;
  fs::path tasks = folder / "tasks", answers = folder / "answers.jsonl",
           results = folder / "results.jsonl", log = folder / "log";
};

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

/// Kernels by name of the task and hash.
using kernel_texts = std::map<std::pair<std::string, std::string>, std::string>;

/// The texts that earlier calls gave to quern bench, which takes no other text for their ids.
base::expected<kernel_texts> earlier_kernels(const fs::path& file) {
  kernel_texts kernels;
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return kernels;
  QUERN_CHECK(storage::read_jsonl(file, [&](const base::json& line) -> base::status {
    QUERN_TRY(std::string task, base::get<std::string>(line, "task"));
    QUERN_TRY(std::string id, base::get<std::string>(line, "id"));
    QUERN_TRY(std::string source, base::get<std::string>(line, "source"));
    kernels.try_emplace({std::move(task), std::move(id)}, std::move(source));
    return {};
  }));
  return kernels;
}

/// Adds the right kernels of all complete runs, of which each is to be of one of `tasks`, by id.
base::status add_right_kernels(const ablation_plan& plan, const std::vector<plan_state>& states,
                               const fs::path& out, const std::set<std::string>& tasks,
                               kernel_texts& kernels) {
  for (std::size_t k = 0; k < plan.runs.size(); ++k) {
    const planned_run& run = plan.runs[k];
    if (run.arm.empty() || run.arm == "evolve" || states[k] != plan_state::complete) continue;
    auto written = evaluation_set_of(out / run.name);
    if (!written) return base::in_context(run.name, written.error());
    auto answers = right_answers_of_evaluation_set(*written);
    if (!answers) return base::in_context(run.name, answers.error());
    for (right_answer& one : *answers) {
      if (!tasks.contains(one.task))
        return base::fail(base::errc::invalid_argument,
                          "--over: {} has answers to task {}, and this build makes another one of "
                          "that name, or none: measure with the build that made the runs",
                          run.name, one.task);
      kernels.try_emplace({std::string(env::task_name_of(one.task)), one.hash},
                          std::move(one.source));
    }
  }
  return {};
}

std::string lines_of(const kernel_texts& kernels) {
  std::string lines;
  for (const auto& [key, source] : kernels)
    lines +=
        base::dump(base::json{{"task", key.first}, {"id", key.second}, {"source", source}}) + "\n";
  return lines;
}

/// It measures as `quern bench` does, for longer than a run.
base::expected<std::vector<std::string>> bench_command(const actors::run_config& config,
                                                       const over_files& files,
                                                       const std::string& baseline,
                                                       const std::string& gpus) {
  QUERN_TRY(const fs::path program, base::sibling_program("quern"));
  std::vector<std::string> argv = {program.string(),
                                   "bench",
                                   files.tasks.string(),
                                   "--candidates",
                                   files.answers.string(),
                                   "--out",
                                   files.results.string(),
                                   "--baseline",
                                   baseline,
                                   "--protocol",
                                   config.env.protocol};
  if (config.env.sandbox == "best_effort") argv.emplace_back("--best-effort");
  if (actors::on_gpus(config)) argv.insert(argv.end(), {"--gpus", gpus});
  return argv;
}

/// Until it ends; an exit_code.
int wait_for_bench(base::subprocess& bench, base::pause_signals& signals, const over_files& files) {
  for (bool asked = false;;) {
    if (const auto end = bench.poll()) {
      if (end->signal == 0 && end->code == done) return done;
      // One that is asked before it is ready ends by the signal.
      if (asked) return paused;
      tell(stderr,
           "quern ablate: quern bench ended with {} and said: {}\n  say the same again to go on; "
           "where it refuses what is there, move {} away, and all is measured anew\n",
           base::describe(*end), last_line_of_log(files.log), files.folder.string());
      return failed;
    }
    if (!signals.arrived(look_at_bench_every_ms)) continue;
    if (!asked) bench.send_signal(SIGINT);
    asked = true;
  }
}

}  // namespace

std::string last_line_of_log(const fs::path& log) {
  const std::string said = base::read_file(log).value_or("");
  std::string_view text = base::trim(said);
  const std::size_t end = text.rfind('\n');
  if (end != std::string_view::npos) text.remove_prefix(end + 1);
  return std::string(text);
}

base::status check_over(const ablation_plan& plan, const std::string& baseline) {
  const auto refuse = [](const std::string& why) {
    return base::fail(base::errc::invalid_argument, "--over: {}", why);
  };
  QUERN_TRY(const actors::run_config* of_arms, config_of_arms(plan));
  if (baseline == "task")
    return refuse("'task' stands for what the file of each task says: name that baseline");
  if (of_arms->tasks.source != "generated")
    return refuse(
        fmt::format("tasks.source is '{}', and answers to generated tasks alone are measured "
                    "again: leave --over out, and give RUN/kernels to quern bench --baseline {}",
                    of_arms->tasks.source, baseline));
  if (!of_arms->env.static_screen)
    return refuse("env.static_screen is false, and quern bench screens each kernel: set it");
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
                                 const fs::path& out, const std::string& baseline,
                                 const std::string& gpus) {
  const over_files files(out, baseline);
  QUERN_TRY(const actors::run_config* config, config_of_arms(plan));
  QUERN_TRY(const actors::task_book book, actors::task_book::make(*config));
  std::set<std::string> tasks;
  for (const actors::book_task& task : book.tasks())
    if (task.held_out) tasks.insert(task.id);
  QUERN_TRY(kernel_texts kernels, earlier_kernels(files.answers));
  QUERN_CHECK(add_right_kernels(plan, states, out, tasks, kernels));
  if (kernels.empty())
    return base::fail(base::errc::not_found,
                      "--over: no complete run in {} has a right answer to measure again",
                      out.string());
  // Those of this build: an earlier one may have left others.
  std::error_code ignored;
  fs::remove_all(files.tasks, ignored);
  QUERN_CHECK(write_held_out_suite(book, files.tasks));
  QUERN_CHECK(base::write_file_atomic(files.answers, lines_of(kernels)));
  tell(stderr, "measuring {} kernels over {}: {}\n", kernels.size(), baseline, files.log.string());
  base::pause_signals signals;
  base::subprocess_spec spec;
  QUERN_TRY(spec.argv, bench_command(*config, files, baseline, gpus));
  spec.log = files.log;
  fs::remove(files.log, ignored);
  QUERN_TRY(base::subprocess bench, base::subprocess::start(spec));
  return wait_for_bench(bench, signals, files);
}

base::expected<measured_again> read_measured_over(const fs::path& out,
                                                  const std::string& baseline) {
  measured_again made(baseline);
  bool header = true;
  QUERN_CHECK(storage::read_jsonl(over_files(out, baseline).results,
                                  [&](const base::json& value) -> base::status {
                                    if (std::exchange(header, false)) return {};
                                    QUERN_TRY(bench_result one, result_from_json(value));
                                    made.add(std::move(one.verdict));
                                    return {};
                                  }));
  return made;
}

}  // namespace quern::tools
