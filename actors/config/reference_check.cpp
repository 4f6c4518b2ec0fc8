#include "actors/config/reference_check.hpp"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include <fmt/format.h>

#include "actors/config/device_class.hpp"
#include "actors/config/placement.hpp"
#include "base/clock.hpp"
#include "base/text.hpp"
#include "env/judge/evaluator_options.hpp"
#include "env/judge/judge.hpp"
#include "env/runner/reference_service.hpp"
#include "env/task/find_tasks.hpp"
#include "env/verdict/baseline.hpp"

namespace quern::actors {
namespace {

/// Of the content that references are tried on.
constexpr std::uint64_t content_seed = 1;

bool is_suite(const run_config& config) {
  return config.tasks.source == "suite";
}

/// The sandbox in which this machine judges, where it does; other machines check their own.
base::expected<std::unique_ptr<env::task_checker>> open_checker_for(const run_config& config) {
  QUERN_TRY(const placement where, placement_of(config));
  const bool evaluates = std::count(where.evaluators.begin(), where.evaluators.end(), "") > 0;
  env::evaluator_options options;
  options.sandbox_required = evaluates && config.env.sandbox == "required";
  options.core = evaluates ? static_cast<int>(config.env.core) : -1;
  options.on_gpu = on_gpus(config);
  return lane_of(config).open_quick_checker(options);
}

base::expected<env::task_report> report_of(const env::task& what, env::task_checker* checker,
                                           env::plain_baselines plain) {
  if (checker != nullptr) return checker->check_quickly(what, content_seed, plain);
  env::task_report report;
  report.findings = what.body->check_texts(what);
  return report;
}

/// The file of a task, for messages; for one of others what a command may be given for it.
std::string file_of(const run_config& config, const std::string& task) {
  if (env::names_foreign_tasks(config.tasks.suite, {&lane_of(config), {}, {}}))
    return config.tasks.suite + "#" + task;
  return (std::filesystem::path(config.tasks.suite) / (task + ".task.yaml")).string();
}

/// Nothing is known about the task, but it may be the cause.
base::error could_not_try(const run_config& config, const env::task& what, base::error why) {
  why.message = fmt::format(
      "tasks.suite: {}: trying it: {}; its reference may hold {} of memory, and Linux's log "
      "(dmesg) names what it killed",
      file_of(config, what.name), why.message, base::human_bytes(env::reference_memory_bytes));
  return why;
}

/// Of tasks, of which `plain` have a baseline to be compiled.
std::string tried_text(const run_config& config, int plain, bool compiles) {
  if (on_gpus(config) && lane_of(config).on_gpus_too != nullptr)
    return "references loaded and described, not tried (they are for GPUs)";
  if (plain == 0) return "references compiled and tried";
  return compiles ? "references and plain baselines compiled and tried"
                  : "references compiled and tried, no plain baselines (what compiles them is not "
                    "here)";
}

}  // namespace

base::status check_lane(const run_config& config, const task_book& tasks) {
  for (const book_task& each : tasks.tasks()) {
    const std::string_view lane = each.task->lane->name;
    if (lane == config.env.lane) continue;
    return base::fail(base::errc::invalid_argument,
                      "tasks.suite is '{}': task {} is of lane {}, env.lane is {}",
                      config.tasks.suite, each.task->name, lane, config.env.lane);
  }
  const auto asked = env::parse_baseline(config.env.baseline);
  for (const book_task& each : tasks.tasks())
    if (auto fits = env::check_baseline(*each.task, on_gpus(config),
                                        asked.value_or(env::baseline_choice::of_task));
        !fits)
      return base::in_context("env.baseline", std::move(fits).error());
  return {};
}

base::expected<std::string> check_references(const run_config& config, const task_book& tasks,
                                             env::task_checker* checker) {
  const base::steady_clock clock;
  const base::nanoseconds_t begin = clock.now_ns();
  std::string name;
  std::string problem;
  int refused = 0, plain = 0;
  // A machine that evaluates has them (preflight); where only others evaluate, they have them.
  const auto check_programs = lane_of(config).check_programs;
  const bool compiles =
      checker != nullptr && (check_programs == nullptr || check_programs().has_value());
  for (const book_task& each : tasks.tasks()) {
    plain += each.task->baseline == env::baseline_kind::plain ? 1 : 0;
    const auto report =
        report_of(*each.task, checker,
                  compiles ? env::plain_baselines::try_them : env::plain_baselines::leave_out);
    if (!report) return tl::make_unexpected(could_not_try(config, *each.task, report.error()));
    const auto fatal = std::find_if(report->findings.begin(), report->findings.end(),
                                    [](const env::task_finding& one) { return one.fatal; });
    if (fatal == report->findings.end()) continue;
    if (refused++ > 0) continue;
    name = each.task->name;
    problem = fmt::format("{}: {}", fatal->rule, fatal->text);
  }
  if (refused == 0)
    return fmt::format("{} tasks: {} in {}", tasks.tasks().size(),
                       checker == nullptr ? "references read" : tried_text(config, plain, compiles),
                       base::human_duration(clock.now_ns() - begin));
  if (refused > 1) problem += fmt::format("; {} more tasks are refused", refused - 1);
  if (!is_suite(config))
    return base::fail(base::errc::invalid_argument,
                      "tasks.seed is {}: the generated task {} is refused: {}; choose another seed",
                      config.tasks.seed, name, problem);
  return base::fail(base::errc::invalid_argument,
                    "tasks.suite: {}: {}; mend it or take it out: quern tasks check {} tells "
                    "everything",
                    file_of(config, name), problem, config.tasks.suite);
}

base::expected<std::string> check_references(const run_config& config, const task_book& tasks) {
  if (!is_suite(config) || lane_of(config).open_quick_checker == nullptr)
    return check_references(config, tasks, nullptr);
  const base::steady_clock clock;
  const base::nanoseconds_t begin = clock.now_ns();
  QUERN_TRY(const auto checker, open_checker_for(config));
  const base::nanoseconds_t started = clock.now_ns();
  QUERN_TRY(const std::string said, check_references(config, tasks, checker.get()));
  return fmt::format("{}, after {} for their process", said, base::human_duration(started - begin));
}

}  // namespace quern::actors
