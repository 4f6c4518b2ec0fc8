// The shape of the policy that stage sft begins with.
#pragma once

#include <cstdint>

#include "actors/config/run_config.hpp"
#include "policy/text/model_config.hpp"

namespace quern::actors {

/// From the keys policy.*; unchecked (policy::validate). `vocabulary` is rounded up to sixteen
/// rows.
policy::model_config fresh_model(const run_config& config, std::int64_t vocabulary,
                                 std::int32_t end_token);

}  // namespace quern::actors
