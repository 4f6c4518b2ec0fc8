#include "tools/cli/eval_service.hpp"

#include <utility>

#include "env/judge/evaluation_request.hpp"
#include "env/judge/exact_request.hpp"
#include "env/task/find_tasks.hpp"
#include "tools/cli/shipped_tasks.hpp"

namespace quern::tools {

base::expected<env::candidate_judge*> eval_service::judge_for(const env::lane& lane,
                                                              const env::measure_name& measured) {
  auto& judge = judges_[lane.name];
  if (!judge) {
    QUERN_TRY(judge, lane.open_judge(judge_options(usual_, measured)));
  }
  if (judge->trouble()) judge->recover();
  return judge.get();
}

base::expected<base::json> eval_service::results_of(const eval_request_line& asked) {
  eval_arguments job = asked.job;
  QUERN_TRY(job.task, resolve_task(asked.job.task, asked.job.tasks));
  QUERN_TRY(auto found, env::find_task(job.task, job.tasks));
  QUERN_TRY(const auto terms, terms_of(job, found));
  QUERN_TRY(auto* judge, judge_for(*found.task.lane, terms.measured));
  const auto subject = std::make_shared<const env::task>(std::move(found.task));
  base::json results = base::json::object();
  // Refuses its terms before time is spent on a verdict.
  if (!asked.exact.is_null()) {
    QUERN_TRY(results["exact"], judge->evaluate_exactly({subject, asked.source, asked.exact}));
  }
  if (asked.verdict) {
    env::evaluation_request request;
    request.subject = subject;
    request.source = asked.source;
    request.verify_only = asked.job.verify_only;
    request.protocol = env::to_text(terms.measured);
    request.policy = terms.policy;
    request.recheck_above = terms.recheck_above;
    request.time_limit_s = asked.job.timeout_s;
    results["verdict"] = env::to_json(judge->evaluate(request));
  }
  return results;
}

std::string eval_service::answer(std::string_view line) {
  base::json id;
  const auto asked = parse_eval_request(line, usual_, id);
  auto results =
      asked ? results_of(*asked) : base::expected<base::json>(tl::make_unexpected(asked.error()));
  base::json told = results ? std::move(*results) : base::json{{"error", results.error().message}};
  told["id"] = id;
  return base::dump(told);
}

}  // namespace quern::tools
