// The outputs of a timed window of a candidate against those of the baseline's.
#pragma once

#include <cstdint>

#include "env/core/core_task.hpp"
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

/// The same of one call with the content of a hidden case of `timed`, against what the case wants;
/// where calls depend on those before, against the baseline's. The baseline's outputs are read in
/// either case: both sides' stay in the cache alike.
finding check_hidden_call(const expected_size& timed, const expected_case& hidden,
                          const output_limits& limit, std::int64_t slot,
                          const tensor_arena& candidate, const tensor_arena& baseline);

}  // namespace quern::env
