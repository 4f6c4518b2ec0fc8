// How long a window is: enough calls for the clock, few enough for memory and for the budget.
#pragma once

#include <cstdint>

namespace quern::env {

/// What is known before timing starts.
struct window_request {
  double ref_call_ns = 0;
  double cand_call_ns = 0;
  /// Bytes of inputs and both sides' outputs that one call needs, since every call has its own.
  std::int64_t bytes_per_call = 0;
  std::int64_t memory_bytes = 96 << 20;
  double budget_ns = 5e8;
  /// Least length of a window of either side.
  double window_ns = 2e6;
};

/// Calls in one window, the same for both sides because both must compute the same content: both
/// windows reach window_ns, unless memory or the budget (at least sixteen pairs) allow less. Never
/// below 1.
std::int64_t calls_per_window(const window_request& request);

}  // namespace quern::env
