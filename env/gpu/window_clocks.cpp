// Two clocks of a window.
#include "env/gpu/window_clocks.hpp"

#include <numeric>

#include "env/measure/stats.hpp"

namespace quern::env {
namespace {

double call_count(const window_times& seen) {
  return static_cast<double>(seen.call_ns.size());
}

}  // namespace

double events_ns_of(const window_times& seen) {
  return std::accumulate(seen.call_ns.begin(), seen.call_ns.end(), 0.0);
}

void window_clocks::learn(const window_times& seen) {
  if (seen.call_ns.empty()) return;
  const double run = seen.inside.run_ns, queue = seen.inside.queue_ns;
  around_.push_back((run - events_ns_of(seen)) / call_count(seen));
  message_.push_back(static_cast<double>(seen.wall_ns) - run - queue);
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
  return (seen.inside.run_ns - events_ns_of(seen)) / call_count(seen) - around_ns();
}

}  // namespace quern::env
