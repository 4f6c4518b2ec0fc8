// How far a right result may lie from the reference's: relative to the scale of each output, and
// never tighter than the reference's own error.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "env/core/output_limits.hpp"
#include "env/task/task.hpp"
#include "env/tensor_task/fill.hpp"
#include "env/tensor_task/task_instance.hpp"

namespace quern::env {

/// What one output of a reference on one content says.
struct result_scale {
  double rms = 0;          ///< root mean square over its finite elements; 0: whole numbers
  double worst_error = 0;  ///< largest |y - y64|; 0 where there are no results in f64
  bool finite = true;      ///< no NaN and no infinity
  bool agrees = true;      ///< NaN and infinities are where y64 has them
};

/// One for each output. `wide`: the same results computed in f64, floating outputs as f64; empty:
/// there are none.
std::vector<result_scale> scales_of(std::span<const tensor_layout> outputs,
                                    std::span<const tensor_bytes> want,
                                    std::span<const tensor_bytes> wide);

/// How many contents an output is calibrated on where its limit is for other contents, too: results
/// of few elements, many of them zero, may show no error on the first. 65,536 elements in all, and
/// 16 contents at most. `elements`: of the smallest floating output; at least 1.
int contents_for_limit(std::int64_t elements);

/// Of one output on several contents, at least one: rms over all of them, and the largest error.
/// Whether it is finite and agrees is the first's to say; others count where they do both.
result_scale pooled(std::span<const result_scale> contents);

/// Symbols: a, r: atol and rtol of the task, relative; s = rms, e = worst_error. The limit of an
/// output is
///
///     |got - want| <= max(a s, 4 e) + r |want|
///
/// None where 4 e > s / 4, or where the two do not agree: then the reference itself is too far from
/// what it computes to judge anybody.
std::optional<tolerance> calibrated(const tolerance& relative, const result_scale& scale);

/// Of all outputs on one content, in their order. Error: invalid_argument names an output in which
/// the reference itself is too far from what it computes in f64.
base::expected<output_limits> limits_of(const task_instance& at, const tolerance& relative,
                                        std::span<const result_scale> scales);

}  // namespace quern::env
