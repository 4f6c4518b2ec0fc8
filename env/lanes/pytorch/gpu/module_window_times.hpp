// What was recorded of a module's windows on a GPU, and what its calls took by it. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "env/core/idle_charge.hpp"
#include "env/judge/timing_session.hpp"
#include "env/measure/estimate.hpp"
#include "env/measure/round_schedule.hpp"

namespace quern::env {

/// Whether a measurement that has taken so many budgets need not go on: it makes a verdict, and its
/// windows are precise, to 3 %, or 2.5 budgets are over. Another process of the candidate, which
/// would tell as much, takes longer to make.
bool is_enough(const ratio_estimate& e, double budgets);

/// Of one measurement. A window has n calls, each asked for when the one before was answered. With
/// the symbols, in ns,
///
///     w   from the first question to the last answer
///     d   what the reference takes to deliver n times once more: median of this measurement
///     u   the tail of a window of the candidate (device_window)
///     q   90th percentile of the reference's tails
///
/// a call takes, and at least least_call_ns,
///
///     reference: (w - d) / n        candidate: (w - d) / n + max(0, u - q)
///
/// max(0, u - q) is charged once per call, not once per window: who answers early does so in every
/// call, and d would hide the deferred work. Thread-compatible.
class module_window_times {
 public:
  /// What is left of a call when d is taken off, at least: below it nothing is told apart from
  /// nothing.
  static constexpr double least_call_ns = 500;

  /// What was recorded up to here does not count.
  void forget() { *this = {}; }
  /// d / n of one delivery.
  void delivered(double call_ns) { deliveries_.push_back(call_ns); }
  /// The same of one that has none of the candidate before it, behind which it is as late as the
  /// candidate likes.
  void delivered_undisturbed(double call_ns) { undisturbed_.push_back(call_ns); }
  void reference_tail(double ns) { charge_.saw_trusted(ns); }
  /// u of the pair that was recorded last.
  void pair_tail(double ns);
  /// u of window `drawn` of the candidate, where sides are measured one after the other.
  void window_tail(std::size_t drawn, double ns);

  [[nodiscard]] std::size_t deliveries() const { return deliveries_.size(); }
  /// Median of d / n; 0 without one.
  [[nodiscard]] double delivery_ns() const;
  /// From the least to the most d / n: a call may have taken longer than it is said to by that.
  [[nodiscard]] double delivery_spread_ns() const;
  [[nodiscard]] std::size_t undisturbed_deliveries() const { return undisturbed_.size(); }
  /// Standard deviation of undisturbed deliveries, by their quartiles: of five or more, one that is
  /// late changes nothing. 0 where there are fewer than two.
  [[nodiscard]] double delivery_deviation_ns() const;
  /// q; without bound where too few tails were seen.
  [[nodiscard]] double forgiven_ns() const { return charge_.forgiven_ns(); }

  /// `pairs`: w / n of either side, in the order of pair_tail(). `charges`: whether candidates are
  /// charged for their tails.
  [[nodiscard]] process_pairs net(process_pairs pairs, bool charges) const;
  /// Whether nothing is left of the reference's calls, by the median of these pairs, which are net:
  /// the host was slower when it delivered than when it computed. Such times say nothing.
  [[nodiscard]] static bool is_nothing_left(const process_pairs& net);
  /// Whether deliveries hide how long a call of the candidate takes. With c the median of
  /// `recorded`, w / n, less that of undisturbed deliveries, s their deviation, and m pairs in a
  /// bucket of the estimate: whether s / sqrt(m) is more than a third of c. A bucket's mean is then
  /// nothing, or a multiple of c, by chance.
  [[nodiscard]] bool is_hidden(const process_pairs& recorded) const;
  /// Of a protocol that has the reference first: run i of either side is a pair. `times`: w / n.
  [[nodiscard]] process_pairs net(const timed_lists& times, const round_schedule& schedule,
                                  bool charges) const;

 private:
  std::vector<double> deliveries_, undisturbed_;
  std::vector<double> tails_;  ///< of windows of the candidate alone, by their number
  idle_charge charge_;
};

/// Which measurements of an evaluation were hidden, in their order. What is judged ends with the
/// latest of them.
class hidden_measurements {
 public:
  void add(bool is_hidden) { all_.push_back(is_hidden); }
  /// Whether one was among the last `lists`.
  [[nodiscard]] bool among_last(std::size_t lists) const;

 private:
  std::vector<bool> all_;
};

}  // namespace quern::env
