// Times a module against its reference on one device, in the order that a protocol says: each call
// with content of its own, every output compared.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "env/gpu/quiet.hpp"
#include "env/lanes/pytorch/gpu/device_module_calls.hpp"
#include "env/measure/estimate.hpp"
#include "env/measure/protocols.hpp"

namespace quern::env {

struct module_timing_request {
  device_module_calls* calls = nullptr;
  device_module_task* task = nullptr;
  device_quiet* quiet = nullptr;  ///< held throughout
  /// On which both sides are called: the first, or another while that one is shared (calm_core).
  /// Not empty.
  std::span<const int> cores;
  std::uint64_t order_seed = 0;
  double budget_s = 0.5;
  estimate_limits limits;
  step_seconds* steps = nullptr;  ///< where its seconds go; outlives the call
  /// Order, length and flush. A protocol that counts calls has windows of one, so that the cache is
  /// read before each.
  measure_protocol protocol = paired_protocol;
  /// Before the first window and behind the last one, while nothing disturbs the device: the driver
  /// answers at once then. `ends` is called wherever `begins` was. Neither is null.
  std::function<void()> begins, ends;
  /// Behind each window of either side, outside of what is timed. `of_calls`: else of deliveries.
  std::function<void(bool candidate, bool of_calls, const device_window& took)> after_window;
};

/// Times are of one call (module_window_times). The outcome is `noisy` where nothing is left of the
/// reference's calls.
struct module_timing_result {
  finding outcome;
  process_pairs pairs;
  double baseline_ns = 0;         ///< median for one call
  double delivery_ns = 0;         ///< d / n
  double delivery_spread_ns = 0;  ///< from its least to its most
  /// module_window_times::is_hidden(); false under protocols other than paired/1.
  bool is_hidden = false;
  double tail_ns = 0;      ///< q
  std::int64_t calls = 0;  ///< of each side that counted
  /// Pairs that did not count, since their core was in another state (calm_pairs).
  std::int64_t left_out = 0;
  bool on_shared_core = false;  ///< all that count were
  double seconds = 0;
};

module_timing_result time_module(const module_timing_request& request);

}  // namespace quern::env
