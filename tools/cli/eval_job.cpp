#include "tools/cli/eval_job.hpp"

#include <optional>

#include "env/measure/measure_name.hpp"
#include "env/task/suite.hpp"

namespace quern::tools {
namespace {

/// A task of no suite: device code, host code and graphs, no libraries.
constexpr env::suite_policy without_suite{.graphs = true};

}  // namespace

base::expected<eval_terms> terms_of(const eval_arguments& a, const env::found_task& found) {
  const env::task& what = found.task;
  std::optional<env::suite> of = found.of_suite;
  if (!a.suite.empty()) {
    QUERN_TRY(of, env::find_tasks(a.suite, {what.lane, a.tasks.kernelbench, {}}));
    const env::lane* lane = of->members.front().task.lane;
    if (lane != what.lane)
      return base::fail(base::errc::invalid_argument,
                        "--suite {}: its tasks are of lane {}, {} is of lane {}: name a suite of "
                        "the task's lane",
                        a.suite, lane->name, what.name, what.lane->name);
  } else if (!of) {
    QUERN_TRY(of, env::suite_beside(a.task));
  }
  if (a.gpu && what.lane->device != env::device_kind::gpu && !what.lane->on_gpus_too)
    return base::fail(base::errc::invalid_argument,
                      "--gpu {} is for tasks that run on a GPU, {} is of lane {}: leave it out",
                      *a.gpu, what.name, what.lane->name);
  eval_terms terms;
  QUERN_TRY(terms.measured,
            measure_of(a.measuring, of ? of->baseline : env::baseline_choice::of_task, *what.lane,
                       a.gpu.has_value()));
  QUERN_CHECK(check_baseline(terms.measured, what, a.gpu.has_value()));
  QUERN_TRY(terms.policy, policy_of(a.measuring, of ? of->policy : without_suite));
  const std::int64_t usual = what.lane->usual_recheck_above_e2;
  const std::int64_t above = of && of->recheck_above_e2 > 0 ? of->recheck_above_e2 : usual;
  terms.recheck_above = static_cast<double>(above) / 100;
  return terms;
}

env::evaluator_options judge_options(const eval_arguments& a, const env::measure_name& measured) {
  env::evaluator_options options;
  options.static_screen = a.screen;
  options.sandbox_required = !a.best_effort;
  options.time_budget_s =
      a.budget_s > 0 ? a.budget_s
                     : env::usual_seconds(measured, env::evaluator_options{}.time_budget_s);
  options.core = a.core;
  options.confirm_at_once = true;
  options.evidence_share = 1;
  options.gpu = a.gpu.value_or(0);
  options.on_gpu = a.gpu.has_value();
  return options;
}

}  // namespace quern::tools
