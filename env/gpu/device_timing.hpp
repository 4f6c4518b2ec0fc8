// Timing a candidate against its baseline on one device: interleaved windows in random order, new
// content for every call, every timed output compared.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "env/gpu/calls.hpp"
#include "env/gpu/device_context.hpp"
#include "env/gpu/lent_memory.hpp"
#include "env/gpu/link.hpp"
#include "env/gpu/process_memory.hpp"
#include "env/gpu/quiet.hpp"
#include "env/gpu/window_clocks.hpp"
#include "env/measure/estimate.hpp"
#include "env/measure/protocols.hpp"
#include "env/verdict/finding.hpp"

namespace quern::env {

/// One side: its runners take turns, and each has the code loaded and the call or program set for
/// the instance.
struct timed_side {
  std::vector<bound_runner> runners;
  /// Results are written to the outputs after a window, when asked for: of references alone. A
  /// candidate would have the time for nothing.
  bool delivers = false;
  /// Windows wait at the gate. Not with host code of a candidate: that it takes its time, or waits
  /// for the device, is part of what it is.
  bool gated = true;
  std::uint64_t workspace_bytes = 0;
  process_memory* memory = nullptr;  ///< of the one process, where it is the candidate's own
};

struct gpu_timing_request {
  device_context* context = nullptr;
  lent_memory* memory = nullptr;
  const device_instance* instance = nullptr;
  tolerance limit;
  std::uint64_t secret = 0;  ///< of content and order
  timed_side baseline, candidate;
  /// A window of the candidate's may take this long, and fifty times what the last one took.
  double least_wall_s = 10;
  double budget_s = 0.2;
  estimate_limits limits;
  /// Held while windows run, and given up between pairs of them; null: the caller holds it, or
  /// nobody. For host code: its calls may ask the driver for something, which waits for contexts
  /// that are made beside it, and their making takes longer than all that is not timed.
  device_quiet* quiet = nullptr;
  /// Called after each window of either side, outside of all clocks.
  std::function<void(bool candidate)> after_window;
  /// Order, length, flush and what a round is (env/measure/round_schedule.hpp); the windows are the
  /// same under all. All but paired/1 know one pair of runners: the first of each side.
  measure_protocol protocol = paired_protocol;
};

/// Where the seconds of a measurement went, by the wall clock.
struct gpu_timing_seconds {
  double setting_up = 0;
  double baseline = 0;
  double candidate = 0;
  double deliver = 0;
  double compare = 0;
  double quiet = 0;  ///< waiting for `quiet`
  double total = 0;
};

struct gpu_timing_result {
  finding outcome;
  /// The candidate's runner whose question failed, and how; `what` is then the caller's to say.
  std::optional<std::size_t> failed_runner;
  runner_failure failure;
  /// One list for each pair of runners (runner i of both sides), in order of time.
  std::vector<process_pairs> runs;
  double baseline_ns = 0, candidate_ns = 0;  ///< medians a call
  double events_ns = 0;  ///< the candidate's last window, a call, by its own events alone
  std::int64_t calls_per_window = 0;
  /// The candidate's windows: what the clock outside (gated sides: the runner's) shows beyond
  /// events and what stands around a call, a call.
  std::vector<double> candidate_beyond_ns;
  double around_ns = 0, message_ns = 0;  ///< what stands around a call; a message, a window
  gpu_timing_seconds seconds;
};

/// What it means that a window of the baseline failed. By the runner's code: a reference that
/// cannot be captured as a CUDA graph is the task's fault (invalid_reference); anything else is
/// this host's (infra_error), which starts the baseline's processes anew.
finding failed_baseline(const runner_failure& failure);

gpu_timing_result time_on_device(const gpu_timing_request& request);

}  // namespace quern::env
