// Two clocks of a window: what stands around its calls, by runners that are trusted, and what a
// window shows beyond that.
#pragma once

#include <cstddef>
#include <cstdint>
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
  /// learnt. Of messages no more than processes need that are awake: what is credited to a window
  /// of others should not grow with how late a trusted one wakes.
  [[nodiscard]] double around_ns() const;
  [[nodiscard]] double message_ns() const;

 private:
  [[nodiscard]] bool tells_running(const window_times& seen) const;
  void remember(std::vector<double>& values, double value) const;
  double gate_ns_;
  std::vector<double> around_, message_;
  std::size_t learnt_ = 0;
};

/// Of a window by its events.
double events_ns_of(const window_times& seen);

}  // namespace quern::env
