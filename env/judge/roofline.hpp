// Where a measured time stands below the roofline, and what keeps it there. Pure: everything is
// read from the verdict.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "env/verdict/verdict.hpp"

namespace quern::env {

/// What limits a kernel, most certain first. place_on_roofline() has the rule.
enum class limiter {
  unknown,         ///< no time, or no cost that the task states
  memory,          ///< traffic that must be takes most of the time
  compute,         ///< arithmetic that must be takes most of the time
  launches,        ///< starting kernels takes much of it
  too_few_blocks,  ///< less than one block for each multiprocessor
  local_memory,    ///< spilt registers or arrays in local memory
  few_threads,     ///< registers or shared memory leave room for few threads
  latency          ///< none of these: waiting
};

std::string_view name_of(limiter what);

struct roofline_place {
  double call_ns = 0;
  double memory_ns = 0;   ///< least traffic at the device's measured bandwidth
  double compute_ns = 0;  ///< stated arithmetic at its peak for the task's types
  double memory_share = 0, compute_share = 0;  ///< of call_ns, at most 1: achieved of the peak
  double intensity = 0;                        ///< operations a byte
  double ridge = 0;         ///< operations a byte from which arithmetic is the longer of both
  double launches = 0;      ///< kernels a call starts
  double launch_share = 0;  ///< of call_ns that starting them takes
  double occupancy = 0;     ///< resident threads over what fits, of the largest launch; 0: unknown
  double waves = 0;         ///< its blocks over those that are resident at once; 0: unknown
  std::int64_t local_bytes = 0;  ///< most of any launch, a thread
  limiter limited_by = limiter::unknown;
  std::string why;  ///< one sentence
};

/// What one more kernel costs on a stream whose host is far ahead. An assumption of the rule.
inline constexpr double launch_cost_ns = 1500;

/// The rule, in this order:
///
/// 1. memory or compute, whichever is longer, where it takes at least 60 % of the call;
/// 2. launches, where starting kernels takes at least 30 %;
/// 3. too_few_blocks, where the largest launch has fewer blocks than the device multiprocessors;
/// 4. local_memory, where a kernel keeps anything there;
/// 5. few_threads, where the largest launch fills less than a quarter of a multiprocessor;
/// 6. latency.
///
/// The largest launch is the one with most threads. Of host code no launches are known: 1 and 6.
roofline_place place_on_roofline(const work_report& work, double call_ns);

/// The larger of memory_share and compute_share, of the median bucket: how near the candidate came
/// to the least time that its task can take. Nothing where the verdict has no time, or the task
/// states no cost.
std::optional<double> roofline_share(const verdict& v);

/// A few lines for a person; empty where the verdict has no time or no work.
std::string roofline_text(const verdict& v);

}  // namespace quern::env
