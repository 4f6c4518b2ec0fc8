// How far a right result may lie from the reference's: relative to the scale of the output, and
// never tighter than the reference's own error.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "env/task/task.hpp"
#include "env/tensor_task/fill.hpp"
#include "env/tensor_task/task_instance.hpp"

namespace quern::env {

/// What the results of a reference on one content say, over all floating outputs.
struct result_scale {
  double least_rms = 0;    ///< least root mean square of an output, over its finite elements
  double worst_error = 0;  ///< largest |y - y64|; 0 where there are no results in f64
  bool finite = true;      ///< no NaN and no infinity
  bool agrees = true;      ///< NaN and infinities are where y64 has them
};

/// `wide`: the same results computed in f64, floating outputs as f64; empty: there are none.
result_scale scale_of(std::span<const tensor_layout> outputs, std::span<const tensor_bytes> want,
                      std::span<const tensor_bytes> wide);

/// Symbols: a, r: atol and rtol of the task, relative; s = least_rms, e = worst_error. The limit is
///
///     |got - want| <= max(a s, 4 e) + r |want|
///
/// None where 4 e > s / 4, or where the two do not agree: then the reference itself is too far from
/// what it computes to judge anybody.
std::optional<tolerance> calibrated(const tolerance& relative, const result_scale& scale);

}  // namespace quern::env
