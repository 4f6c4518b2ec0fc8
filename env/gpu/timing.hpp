// Timing a candidate against its baseline on one device: interleaved windows in random order, new
// content for every call, every timed output compared in memory that neither side can reach while
// it is compared.
#pragma once

#include <cstdint>
#include <vector>

#include "env/gpu/desk.hpp"
#include "env/gpu/lent_memory.hpp"
#include "env/gpu/link.hpp"
#include "env/measure/estimate.hpp"
#include "env/verdict/finding.hpp"

namespace quern::env {

/// One side: its runners take turns, and each has the code loaded and the call or program set for
/// the instance.
struct timed_side {
  std::vector<gpu_link*> runners;
  bool delivers = false;  ///< results are written to the outputs after a window (reference)
  double call_ns = 0;     ///< a first idea; 0: none
  std::uint64_t workspace_bytes = 0;
};

struct gpu_timing_request {
  device_desk* desk = nullptr;
  lent_memory* memory = nullptr;
  const task_instance* instance = nullptr;
  std::vector<distribution> kinds;  ///< of the timed inputs
  tolerance limit;
  std::uint64_t key = 0;  ///< secret; content of call i is stream first_call + i
  std::uint64_t first_call = 0;
  std::uint64_t order_seed = 0;
  timed_side baseline, candidate;
  double budget_s = 0.2;
  estimate_limits limits;
};

/// Where the seconds of a measurement went.
struct gpu_timing_seconds {
  double content = 0;   ///< new inputs, poison, comparing: the evaluator's own kernels
  double baseline = 0;  ///< windows by the wall clock
  double candidate = 0;
  double deliver = 0;
  double total = 0;
};

struct gpu_timing_result {
  finding what;
  /// One list for each pair of runners (runner i of both sides), in order of time.
  std::vector<process_pairs> runs;
  double baseline_ns = 0, candidate_ns = 0;  ///< medians a call
  std::int64_t calls_per_window = 0;
  /// Wall time of the candidate's windows beyond what its events say, a window; and the baseline's.
  std::vector<double> unexplained_ns, baseline_unexplained_ns;
  gpu_timing_seconds seconds;
};

gpu_timing_result time_on_device(const gpu_timing_request& request);

/// Calls in a window so that the shorter side's window lasts `window_ns`, within memory.
std::int64_t calls_per_gpu_window(double shorter_call_ns, double window_ns,
                                  std::uint64_t bytes_per_call, std::uint64_t memory_bytes);

}  // namespace quern::env
