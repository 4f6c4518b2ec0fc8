// Times a module against its reference on one device: pairs of windows in random order, each call
// with content of its own, every output compared.
#pragma once

#include <cstdint>

#include "env/gpu/quiet.hpp"
#include "env/lanes/pytorch/gpu/device_module_calls.hpp"
#include "env/measure/estimate.hpp"

namespace quern::env {

struct module_timing_request {
  device_module_calls* calls = nullptr;
  device_module_task* task = nullptr;
  device_quiet* quiet = nullptr;  ///< held throughout
  std::uint64_t order_seed = 0;
  double budget_s = 0.5;
  estimate_limits limits;
};

/// A window has n calls (device_module_task::slots); each is asked for and answered by itself, one
/// right behind the other. Symbols, in ns:
///
///     w   from the first question to the last answer
///     d   what the reference takes to deliver n times once more: median of this measurement
///     u   the tail of a window of the candidate (device_window)
///     q   90th percentile of the reference's tails
///
/// A call takes
///
///     reference: (w - d) / n        candidate: (w - d) / n + max(0, u - q)
///
/// max(0, u - q) is charged once per call, not once per window: who answers early does so in every
/// call, and d would hide the deferred work.
struct module_timing_result {
  finding what;
  process_pairs pairs;
  double baseline_ns = 0;  ///< median for one call
  double delivery_ns = 0;  ///< d / n
  double tail_ns = 0;      ///< q
  std::int64_t calls = 0;  ///< of each side
  double seconds = 0;
};

module_timing_result time_module(const module_timing_request& request);

}  // namespace quern::env
