// What a window of a side took, by the clocks that saw it.
#pragma once

namespace quern::env {

/// Nanoseconds of one window, where runner and evaluator share a core.
struct core_clocks {
  double wall_ns = 0;          ///< from question to answer
  double cpu_ns = 0;           ///< of the runner
  double child_waited_ns = 0;  ///< the runner was ready and did not run
  double own_waited_ns = 0;    ///< the evaluator's thread was, and did not
  double handshake_ns = 0;     ///< of a window without calls, on the wall
  double handshake_cpu_ns = 0;
};

struct window_time {
  double ns = 0;           ///< what counts
  bool disturbed = false;  ///< others had the core for most of it: caches are not what they were
};

/// The wall clock counts. Where Linux had given the core to somebody else meanwhile, the
/// runner's own CPU time is what is left of it; nobody gains by waiting.
window_time time_of_window(const core_clocks& seen);

}  // namespace quern::env
