// How long a window is.
#include "env/measure/window_plan.hpp"

#include <algorithm>
#include <cmath>

namespace quern::env {

std::int64_t calls_per_window(const window_request& request) {
  const double shorter = std::max(1.0, std::min(request.ref_call_ns, request.cand_call_ns));
  const double both = std::max(1.0, request.ref_call_ns + request.cand_call_ns);
  const double wanted = std::ceil(request.window_ns / shorter);
  const double affordable = std::floor(request.budget_ns / (16 * both));
  const double fitting =
      std::floor(static_cast<double>(request.memory_bytes) /
                 static_cast<double>(std::max<std::int64_t>(1, request.bytes_per_call)));
  return static_cast<std::int64_t>(std::max(1.0, std::min({wanted, affordable, fitting, 1e6})));
}

}  // namespace quern::env
