// What was recorded of a module's windows on a GPU, and what its calls took by it. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "env/core/idle_charge.hpp"
#include "env/judge/calm_pairs.hpp"
#include "env/judge/timing_session.hpp"
#include "env/measure/estimate.hpp"
#include "env/measure/round_schedule.hpp"

namespace quern::env {

/// Whether a measurement that has taken so many budgets need not go on: it makes a verdict, and its
/// windows are precise, to 3 %, or 2.5 budgets are over. Another process of the candidate, which
/// would tell as much, takes longer to make.
bool is_enough(const ratio_estimate& e, double budgets);

/// What a window of n calls took beside them.
struct window_margins {
  double wake_ns = 0;  ///< of a call: v / n
  double tail_ns = 0;  ///< u; 0: not known
};

/// What is known of a pair beside its times.
struct pair_facts {
  bool candidate_first = false;
  /// Whether the core was shared in a window.
  bool reference_shared = false, candidate_shared = false;
  /// How many each window has.
  std::size_t calls = 1;
  window_margins reference, candidate;
};

/// Of one measurement. A window has n calls, each asked for when the one before was answered. With
/// the symbols, in ns,
///
///     w   from the copies before the first question to the last answer, less pauses (call_copies)
///     d   what the reference takes to deliver n times once more: median of those that count
///     v   the wake of a window of the candidate, u its tail (device_window)
///     z   90th percentile of the reference's wakes, q of its tails
///
/// a call takes, and at least least_call_ns,
///
///     reference: (w - d) / n
///     candidate: (w - d) / n + max(0, v - z) / n + max(0, u - q)
///
/// max(0, u - q) is charged once per call, not once per window: who answers early does so in every
/// call, and d would hide the deferred work. Of a wake that is shorter than the reference's nothing
/// is taken off: who does not wake has the change of contexts in the first call.
///
/// Under paired/1 those pairs count that calm_pairs says, and deliveries on a core in the same
/// state do, where there are least_deliveries. z and q are of the windows of the reference in these
/// pairs that came first: what one takes behind the candidate is forgiven nobody.
/// Thread-compatible.
class module_window_times {
 public:
  /// If fewer are in the state of the pairs that count, all deliveries count, and the measurement
  /// should have more (deliveries()).
  static constexpr std::size_t least_deliveries = 3;

  /// What is left of a call when d is taken off, at least: below it nothing is told apart from
  /// nothing.
  static constexpr double least_call_ns = 500;

  /// `chooses`: whether pairs and deliveries count by calm_pairs; else all do.
  explicit module_window_times(bool chooses = true) : chooses_(chooses) {}

  /// What was recorded up to here does not count.
  void forget() { *this = module_window_times(chooses_); }
  /// d / n of one delivery that comes before the candidate's: behind that, one is as late as the
  /// candidate likes.
  void delivered(double call_ns, bool shared = false);
  /// The tail of a delivery of the candidate: what it leaves behind one would make windows of the
  /// reference slower. The longest counts as a tail of the next window of the candidate.
  void candidate_delivered(double tail_ns);
  /// The next pair.
  void pair_took(pair_facts facts);
  /// Where sides are measured one after the other: a window of the reference.
  void reference_took(const window_margins& beside);
  /// The same: window `drawn` of the candidate.
  void window_took(std::size_t drawn, const window_margins& beside);

  /// Of the last pair: 0 where it was calm, 1 where both windows were shared, else 2.
  [[nodiscard]] std::size_t last_state() const;
  /// Pairs that do not count; and calls of each side in those that do.
  [[nodiscard]] std::size_t left_out() const;
  [[nodiscard]] std::size_t calls() const;
  /// How many are in the state of the pairs that count. Below least_deliveries a result is no
  /// verdict.
  [[nodiscard]] std::size_t deliveries() const;
  /// Whether there is any, in whatever state.
  [[nodiscard]] bool has_deliveries() const { return !deliveries_.empty(); }
  /// Whether the pairs that count were all measured on a shared core.
  [[nodiscard]] bool on_shared_core() const { return chosen() == calm_pairs::choice::shared; }
  /// Median of d / n; 0 without one.
  [[nodiscard]] double delivery_ns() const;
  /// From the least to the most d / n: a call may have taken longer than it is said to by that.
  [[nodiscard]] double delivery_spread_ns() const;
  /// Standard deviation of d / n, by their quartiles: of five or more, one that is
  /// late changes nothing. 0 where there are fewer than two.
  [[nodiscard]] double delivery_deviation_ns() const;
  /// q; without bound where no tail was seen.
  [[nodiscard]] double forgiven_ns() const { return charges().tail.forgiven_ns(); }

  /// `pairs`: w / n of either side, in the order of pair_took(). Those that count, in the same
  /// order. `charges`: whether candidates are charged for their wakes and tails.
  [[nodiscard]] process_pairs net(const process_pairs& pairs, bool charges) const;
  /// Whether nothing is left of the reference's calls, by the median of these pairs, which are net:
  /// the host was slower when it delivered than when it computed. Such times say nothing.
  [[nodiscard]] static bool is_nothing_left(const process_pairs& net);
  /// Whether deliveries hide how long a call of the candidate takes. With c the median of those of
  /// `recorded` that count, w / n, less that of deliveries, s their deviation, and m pairs in a
  /// bucket of the estimate: whether s / sqrt(m) is more than a third of c. A bucket's mean is then
  /// nothing, or a multiple of c, by chance.
  [[nodiscard]] bool is_hidden(const process_pairs& recorded) const;
  /// Of a protocol that has the reference first: run i of either side is a pair. `times`: w / n.
  [[nodiscard]] process_pairs net(const timed_lists& times, const round_schedule& schedule,
                                  bool charges) const;

 private:
  struct delivery {
    double call_ns;
    bool shared;
  };
  /// What the only window of the reference takes is forgiven, too: a measurement of long calls has
  /// three or four that count, and who is woken has inputs there.
  struct both_charges {
    idle_charge wake{1}, tail{1};
  };

  [[nodiscard]] calm_pairs::choice chosen() const {
    return chooses_ ? states_.chosen() : calm_pairs::choice::all;
  }
  [[nodiscard]] process_pairs counted(const process_pairs& pairs) const;
  [[nodiscard]] std::vector<double> delivered_ns() const;
  [[nodiscard]] both_charges charges() const;

  bool chooses_;
  std::vector<delivery> deliveries_;
  calm_pairs states_;
  /// By number of the pair.
  std::vector<pair_facts> facts_;
  /// Where sides are measured one after the other: of the reference, and of the candidate by
  /// number.
  std::vector<window_margins> reference_, margins_;
  double delivery_tail_ns_ = 0;
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
