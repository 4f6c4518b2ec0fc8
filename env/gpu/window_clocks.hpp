// Two clocks of a window: what stands around its calls, by runners that are trusted, and what a
// window shows beyond that.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "env/gpu/link.hpp"

namespace quern::env {

/// Learns from windows of trusted runners what content, poison and flush take a call, and what a
/// message takes a window; says what another window took beyond its events and those. All in
/// nanoseconds. Plain value.
class window_clocks {
 public:
  /// A runner's own clock tells running from queueing only while its gate is closed: `gate_ns`.
  explicit window_clocks(double gate_ns = 60e6) : gate_ns_(gate_ns) {}

  /// A window of a runner in which no host code of a candidate lives; behind a gate, so that its
  /// clock knows launching and running apart. One that tells nothing of it, or whose gate opened by
  /// itself, stands with its whole wall clock.
  void learn(const window_times& seen);
  [[nodiscard]] bool knows() const { return !around_.empty(); }

  /// A call's share of what the evaluator's clock shows beyond events, what stands around calls and
  /// what a message takes; may be negative. Needs knows().
  [[nodiscard]] double beyond(const window_times& seen) const;
  /// The same of a trusted runner by its own clock, without launches and messages; by the
  /// evaluator's where that tells nothing.
  [[nodiscard]] double beyond_inside(const window_times& seen) const;

  /// Around a call, and what a window takes before its first call is queued and in messages, as
  /// learnt.
  [[nodiscard]] double around_ns() const;
  [[nodiscard]] double message_ns() const;

 private:
  [[nodiscard]] bool tells_running(const window_times& seen) const;
  double gate_ns_;
  std::vector<double> around_, message_;
};

/// Of a window by its events.
double events_ns_of(const window_times& seen);

/// What is added to a call of `events_ns`, in the last of the windows that showed `beyond` (in
/// their order), because the clock outside shows it. Of all windows together, whose median knows a
/// microsecond, hardly anything is forgiven; of one, in which a process may wake late, more.
double charged_ns(std::span<const double> beyond, double events_ns, std::int64_t calls);

/// The same of plans, whose events are trusted unless the clock of their runner says something else
/// altogether: what the median of all windows shows, where that is much beside the call and what
/// stands around it (`around_ns`). Nanoseconds a call.
double charged_to_plan_ns(std::span<const double> beyond, double events_ns, double around_ns);

}  // namespace quern::env
