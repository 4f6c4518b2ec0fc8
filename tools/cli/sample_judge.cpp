#include "tools/cli/sample_judge.hpp"

#include <variant>

#include "actors/orchestrator/rollout.hpp"
#include "env/measure/measure_name.hpp"

namespace quern::tools {

base::expected<sample_judge> sample_judge::open(const eval_arguments& asked,
                                                const env::found_task& found) {
  QUERN_TRY(const eval_terms terms, terms_of(asked, found));
  QUERN_TRY(auto judge, found.task.lane->open_judge(judge_options(asked, terms.measured)));
  sample_judge made(std::move(judge));
  made.request_.subject = std::make_shared<const env::task>(found.task);
  made.request_.verify_only = asked.verify_only;
  made.request_.protocol = env::to_text(terms.measured);
  made.request_.policy = terms.policy;
  made.request_.recheck_above = terms.recheck_above;
  made.request_.time_limit_s = asked.timeout_s;
  return made;
}

env::verdict sample_judge::judge(const std::string& completion) {
  actors::completion_order order;
  order.task = env::task_id(*request_.subject);
  order.text = completion;
  const auto read = actors::read_completion(order, {request_.protocol, judge_->device_class()});
  if (const auto* candidate = std::get_if<actors::evaluate_sample>(&read)) {
    request_.source = candidate->source;
    return judge_->evaluate(request_);
  }
  const auto malformed = env::parse_verdict(std::get<actors::sample_verdict>(read).json);
  // What read_completion writes can be read.
  return malformed.value_or(env::verdict());
}

}  // namespace quern::tools
