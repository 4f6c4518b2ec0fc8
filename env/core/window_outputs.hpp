// The outputs of a timed window of a candidate against those of the baseline's.
#pragma once

#include <cstdint>

#include "env/core/output_limits.hpp"
#include "env/runner/arena.hpp"
#include "env/task/task.hpp"
#include "env/verdict/finding.hpp"

namespace quern::env {

/// Every output of every slot; ok where judge_layer::values or timed_values is off. What is the
/// result of another slot is a hack.
finding check_window_outputs(const task_instance& instance, const output_limits& limit,
                             std::int64_t slots, const tensor_arena& candidate,
                             const tensor_arena& baseline);

}  // namespace quern::env
