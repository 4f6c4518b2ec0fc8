// What is added to the calls of a candidate because a clock shows it beyond their events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "env/measure/estimate.hpp"

namespace quern::env {

/// Knows of each window what its events say of a call and what a clock shows beyond that
/// (window_clocks.hpp). All in nanoseconds a call. Plain value.
class window_charges {
 public:
  /// `gated`: by a trusted runner's own clock, whose events are believed unless that says something
  /// else altogether.
  explicit window_charges(bool gated) : gated_(gated) {}

  /// Of the next window.
  void add(double events_ns, double beyond_ns);
  void forget() { *this = window_charges(gated_); }
  /// In the order of windows.
  [[nodiscard]] const std::vector<double>& beyond() const { return beyond_; }

  /// Added to the calls of window `window` of those that were added, which had `calls`: what it
  /// shows by itself, where that is more than a process may wake late.
  [[nodiscard]] double alone(std::size_t window, std::int64_t calls) const;

  /// What all calls are to be multiplied with, at least 1. `claimed_ns`: what the whole measurement
  /// would take a call for. Half of all windows took longer than the clock's median says, whichever
  /// of them lie: a claim below that is raised to it, but for half a microsecond (more, where the
  /// windows are few) and 2 %, and where it is contradicted by far, above it by what the clocks
  /// leave open: a microsecond and 3 % of the `around_ns` around a call. Of plans: what the median
  /// shows beyond events, where that is much beside the call and `around_ns`.
  [[nodiscard]] double factor(double claimed_ns, double around_ns) const;

 private:
  bool gated_;
  std::vector<double> clock_, beyond_;
};

/// What rounds whose ratios are averaged, or whose median counts, would take a call for: the lower
/// of the median and the harmonic mean.
double claimed_by_rounds(std::span<const double> call_ns);

/// Windows of pairs with what is charged. Window i of run r is the (i * runs.size() + r)-th that
/// the charges know. `paired`: it goes on to estimate_ratio under `limits`; else to rounds.
std::vector<process_pairs> charged(std::vector<process_pairs> runs, const window_charges& charges,
                                   std::int64_t calls, double around_ns, bool paired,
                                   const estimate_limits& limits);
/// Charged for single windows only: what uniform factors do not change can be told from these.
std::vector<process_pairs> charged_alone(std::vector<process_pairs> runs,
                                         const window_charges& charges, std::int64_t calls);

}  // namespace quern::env
