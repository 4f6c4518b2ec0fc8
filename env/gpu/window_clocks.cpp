// Two clocks of a window.
#include "env/gpu/window_clocks.hpp"

#include <algorithm>
#include <numeric>

#include "env/measure/stats.hpp"

namespace quern::env {
namespace {

/// What two clocks may differ by in all windows, a call, and in one alone, a call and a window.
constexpr double forgiven_ns = 500;
constexpr double forgiven_share = 0.02;
constexpr std::size_t enough_windows = 5;
constexpr double forgiven_once_ns = 5e3;
constexpr double late_wake_ns = 30e3;

/// What caches and lines on their way to memory may do to what stands around a call.
constexpr double plan_forgiven_ns = 20e3;
constexpr double plan_forgiven_share = 0.25;
/// Clocks of the two sides may be 2 % apart.
constexpr double plan_forgiven_around = 0.05;

double call_count(const window_times& seen) {
  return static_cast<double>(seen.call_ns.size());
}

}  // namespace

double events_ns_of(const window_times& seen) {
  return std::accumulate(seen.call_ns.begin(), seen.call_ns.end(), 0.0);
}

bool window_clocks::tells_running(const window_times& seen) const {
  return seen.inside.run_ns > 0 && static_cast<double>(seen.inside.queue_ns) < gate_ns_ &&
         static_cast<double>(seen.inside.run_ns) >= events_ns_of(seen);
}

void window_clocks::learn(const window_times& seen) {
  if (seen.call_ns.empty()) return;
  const auto wall = static_cast<double>(seen.wall_ns);
  const auto run = static_cast<double>(seen.inside.run_ns);
  const bool told = tells_running(seen);
  const double beside_events = told ? run : wall;
  around_.push_back((beside_events - events_ns_of(seen)) / call_count(seen));
  // The other side begins to run once its first call is queued, the trusted one behind the last.
  const auto queued_ahead =
      static_cast<double>(seen.inside.queue_ns) - static_cast<double>(seen.inside.start_ns);
  message_.push_back(told ? wall - run - queued_ahead : 0);
}

double window_clocks::around_ns() const {
  return median_of(around_);
}

double window_clocks::message_ns() const {
  return median_of(message_);
}

double window_clocks::beyond(const window_times& seen) const {
  const double spent = static_cast<double>(seen.wall_ns) - events_ns_of(seen) - message_ns();
  return spent / call_count(seen) - around_ns();
}

double window_clocks::beyond_inside(const window_times& seen) const {
  if (!tells_running(seen)) return beyond(seen);
  return (static_cast<double>(seen.inside.run_ns) - events_ns_of(seen)) / call_count(seen) -
         around_ns();
}

double charged_ns(std::span<const double> beyond, double events_ns, std::int64_t calls) {
  if (beyond.empty()) return 0;
  const double together = beyond.size() < enough_windows
                              ? 0
                              : median_of(beyond) - forgiven_ns - forgiven_share * events_ns;
  const double alone = beyond.back() - forgiven_once_ns - late_wake_ns / static_cast<double>(calls);
  return std::max({0.0, together, alone});
}

double charged_to_plan_ns(std::span<const double> beyond, double events_ns, double around_ns) {
  if (beyond.size() < enough_windows) return 0;
  const double shown = median_of(beyond);
  const double forgiven =
      plan_forgiven_ns + plan_forgiven_share * events_ns + plan_forgiven_around * around_ns;
  return shown > forgiven ? shown : 0;
}

}  // namespace quern::env
