// Two clocks of a window.
#include "env/gpu/window_clocks.hpp"

#include <algorithm>
#include <numeric>

#include "env/measure/stats.hpp"

namespace quern::env {
namespace {

/// Windows of trusted runners that are remembered, the latest.
constexpr std::size_t most_remembered = 501;

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

/// Nothing up to what is forgiven; of what is much more hardly anything is, or lying would pay for
/// itself.
double beyond_forgiveness(double shown, double forgiven) {
  return shown > forgiven ? shown - forgiven * (forgiven / shown) : 0;
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

void window_charges::add(double beyond_ns) {
  beyond_.push_back(beyond_ns);
  usual_known_ = false;
}

double window_charges::of(std::size_t window, double events_ns, std::int64_t calls,
                          double around_ns) const {
  if (!usual_known_ && !beyond_.empty()) {
    usual_ = median_of(beyond_);
    usual_known_ = true;
  }
  const bool knows_usual = beyond_.size() >= enough_windows;
  if (gated_) {
    const double forgiven =
        plan_forgiven_ns + plan_forgiven_share * events_ns + plan_forgiven_around * around_ns;
    return knows_usual && usual_ > forgiven ? usual_ : 0;
  }
  const double together =
      knows_usual ? beyond_forgiveness(usual_, forgiven_ns + forgiven_share * events_ns) : 0;
  const double alone = beyond_forgiveness(
      beyond_.at(window), forgiven_once_ns + late_wake_ns / static_cast<double>(calls));
  return std::max(together, alone);
}

}  // namespace quern::env
