#include "actors/orchestrator/rollout.hpp"

#include "env/prompt/completion.hpp"
#include "env/verdict/verdict.hpp"

namespace quern::actors {

std::variant<evaluate_sample, sample_verdict> read_completion(const completion_order& order,
                                                              const rollout_facts& facts) {
  const auto read = env::parse_completion(order.text);
  if (read) {
    return evaluate_sample{order.incarnation, order.sample,        order.task, read->code,
                           order.attempt,     order.best_known_e2, order.turn};
  }
  env::verdict verdict;
  verdict.kind = env::verdict_kind::malformed;
  verdict.reason = env::name_of(read.error().reason);
  verdict.detail = read.error().detail;
  verdict.task = order.task;
  verdict.protocol = facts.protocol;
  verdict.device_class = facts.device_class;
  sample_verdict made;
  made.incarnation = order.incarnation;
  made.sample = order.sample;
  made.attempt = order.attempt;
  made.json = base::dump(env::to_json(verdict));
  return made;
}

}  // namespace quern::actors
