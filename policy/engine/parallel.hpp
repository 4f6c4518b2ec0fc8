// Which part of a parallel run this process is. Every model call takes one, so that no call site
// has to change when a dimension is implemented; sizes that are not implemented are refused where a
// model is made, never ignored.
#pragma once

#include <cstdint>

#include "base/status.hpp"

namespace quern::policy {

/// Sizes and ranks of the four ways to divide work: data, tensor, pipeline and context (sequence)
/// parallelism.
struct parallel_context {
  std::int32_t dp = 1, tp = 1, pp = 1, cp = 1;
  std::int32_t dp_rank = 0, tp_rank = 0, pp_rank = 0, cp_rank = 0;
  bool operator==(const parallel_context&) const = default;
};

/// Accepts any dp, and tp, pp and cp of 1; any other size or a rank outside its size is
/// invalid_argument with the name of the dimension.
base::status check(const parallel_context& context);

}  // namespace quern::policy
