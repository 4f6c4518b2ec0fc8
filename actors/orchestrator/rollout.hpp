// From the text that the policy wrote to a question for the evaluators, or to the verdict that
// there is nothing to ask.
#pragma once

#include <string>
#include <variant>

#include "actors/messages.hpp"
#include "actors/orchestrator/orchestrator.hpp"

namespace quern::actors {

/// What verdicts made in control carry.
struct rollout_facts {
  std::string protocol;
  std::string device_class;
};

/// The candidate in a completion, to be evaluated; or `malformed` with its reason, which counts and
/// needs no evaluator. Pure.
std::variant<evaluate_sample, sample_verdict> read_completion(const completion_order& order,
                                                              const rollout_facts& facts);

}  // namespace quern::actors
