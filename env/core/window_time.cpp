// What a window of a side took, by the clocks that saw it.
#include "env/core/window_time.hpp"

#include <algorithm>

namespace quern::env {
namespace {

/// A window is shared when others had the core for more than this share of it.
constexpr double shared_share = 0.005;
constexpr double shared_floor_ns = 10'000;
/// A pair is left out when they had it for most of a window.
constexpr double disturbed_share = 0.9;

}  // namespace

window_time time_of_window(const core_clocks& seen) {
  // Linux's books tell who waited for the core, not for whom: our question wakes the runner on
  // our core, so that we wait while it computes, and it may still have waited for us before the
  // question. What neither explains, others had, and never more than the runner left.
  const double waited =
      std::min(seen.child_waited_ns + std::max(seen.own_waited_ns - seen.cpu_ns, 0.0),
               (seen.wall_ns - seen.handshake_ns) - (seen.cpu_ns - seen.handshake_cpu_ns));
  const bool shared = waited > shared_floor_ns + shared_share * seen.wall_ns;
  const double ns = shared ? seen.cpu_ns - seen.handshake_cpu_ns : seen.wall_ns - seen.handshake_ns;
  return {std::max(ns, 0.1 * seen.wall_ns), waited > disturbed_share * seen.wall_ns};
}

}  // namespace quern::env
