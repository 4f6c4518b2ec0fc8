// Whether a candidate computes what the reference does, at sizes and on content that it cannot
// foresee.
#pragma once

#include <vector>

#include "env/gpu/device_candidate.hpp"
#include "env/gpu/device_context.hpp"
#include "env/gpu/lent_memory.hpp"
#include "env/gpu/parts.hpp"

namespace quern::env {

/// Calls of a check with some elements of another distribution (order_maker::plant). More of them
/// at the sizes that are timed: where a call takes long a measurement has few calls, and what shows
/// in long stretches only would find too few of them (tests/env/gpu/narrow_counters_test.cpp).
inline constexpr int planted_calls_hidden = 8, planted_calls_timed = 20;

struct gpu_check_request {
  device_context* context = nullptr;
  lent_memory* memory = nullptr;
  const device_instance* instance = nullptr;
  tolerance limit;
  device_candidate* candidate = nullptr;
  bound_runner reference;  ///< it has the task's script
  std::uint64_t secret = 0;
  int planted_calls = planted_calls_hidden;
  /// Seconds that the candidate may take for all calls of the check.
  double wall_s = 10;
  gpu_parts* parts = nullptr;
};

/// All rounds of one choice of sizes, the first content again (A, B, A), and the first with one
/// element changed, each in the same memory for inputs and in outputs of its own, on poison of its
/// own; then every guard zone. What was checked is added to `checks`.
finding check_on_device(const gpu_check_request& request, std::vector<check_result>& checks);

}  // namespace quern::env
