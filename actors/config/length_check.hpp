// Whether the longest sample of a run is one that its model can compute.
#pragma once

#include "actors/config/run_config.hpp"
#include "base/status.hpp"
#include "policy/text/model_config.hpp"

namespace quern::actors {

/// policy.max_prompt_tokens and policy.max_new_tokens together are at most the model's positions: a
/// longer answer would be cut before its limit, and the policy punished for it. Error:
/// invalid_argument, with both values, the limit and what to lower.
base::status check_positions(const run_config& config, const policy::model_config& model);

}  // namespace quern::actors
