// Two clocks of a window.
#include "env/gpu/window_clocks.hpp"

#include <algorithm>
#include <numeric>

#include "env/measure/stats.hpp"

namespace quern::env {
namespace {

/// Windows of trusted runners that are remembered, the latest.
constexpr std::size_t most_remembered = 501;

constexpr double longest_message_ns = 100e3;

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
  remember(around_, (beside_events - events_ns_of(seen)) / call_count(seen));
  // The other side begins to run once its first call is queued, the trusted one behind the last.
  const auto queued_ahead =
      static_cast<double>(seen.inside.queue_ns) - static_cast<double>(seen.inside.start_ns);
  remember(message_, told ? wall - run - queued_ahead : 0);
  ++learnt_;
}

void window_clocks::remember(std::vector<double>& values, double value) const {
  if (values.size() < most_remembered)
    values.push_back(value);
  else
    values[learnt_ % most_remembered] = value;
}

double window_clocks::around_ns() const {
  return median_of(around_);
}

double window_clocks::message_ns() const {
  return std::min(median_of(message_), longest_message_ns);
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

}  // namespace quern::env
