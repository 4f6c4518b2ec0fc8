// One measurement of a candidate against its baseline on any device: in which order windows come,
// what they are warmed up with, and when there are enough of them. How long a window took is for
// its lane to say, by whatever clock its device has.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.hpp"
#include "base/random.hpp"
#include "env/measure/estimate.hpp"
#include "env/measure/protocols.hpp"
#include "env/verdict/finding.hpp"

namespace quern::env {

/// Windows of one side alone, for protocols that measure the sides one after the other.
class single_windows {
 public:
  virtual ~single_windows() = default;
  /// Draws the content of one window more.
  virtual void draw() = 0;
  /// A window of one side with content `drawn`, counted from 0. `call_ns`: each call that counts.
  virtual finding window(bool candidate, std::size_t drawn, std::vector<double>& call_ns) = 0;
  /// Compares what the last window of the candidate wrote with what the last one of the baseline
  /// did.
  virtual finding compare() = 0;
};

/// Budgets that a measurement takes at most where its estimate is noisy when the first one is over:
/// a candidate that is `noisy` is judged again from its beginning, and what was measured is lost.
inline constexpr double most_budgets = 4;

/// Both sides on one device, as a session asks for them; a lane implements it. A finding that is
/// not ok ends the session with it. One thread.
class timed_sides {
 public:
  virtual ~timed_sides() = default;
  /// Chooses how many calls a window has, and makes both sides ready for them.
  virtual finding rehearse() = 0;
  /// What was shown up to here was not measured. Called after rehearse() and after warm-ups.
  virtual void begin() {}
  /// Pairs of processes that take turns; each has a list of its own. Constant, at least 1.
  [[nodiscard]] virtual std::size_t lists() const { return 1; }
  /// Called before each pair of paired/1: windows that do not count among those that do.
  virtual finding between() { return {}; }
  /// A window of each side on the same new content, of which every output is compared. `took` stays
  /// empty where somebody else had the device meanwhile.
  virtual finding pair(std::size_t list, bool candidate_first,
                       std::optional<window_pair>& took) = 0;
  /// Pairs are measured in one of so many states, and those that count may be those of one. So the
  /// orders of windows are balanced in each.
  static constexpr std::size_t pair_states = 3;
  /// In which the next pair seems to come.
  [[nodiscard]] virtual std::size_t coming_state() { return 0; }
  /// In which the last one was measured.
  [[nodiscard]] virtual std::size_t last_state() const { return 0; }
  /// Calls of each side that counted in the last pair, where a protocol counts warm-ups.
  [[nodiscard]] virtual std::size_t counted_calls() const { return 1; }
  /// Whether the pairs so far are enough for an interval. Asked when each list has bucket_count.
  [[nodiscard]] virtual bool narrow(std::span<const process_pairs> lists) const = 0;
  /// Whether the pairs so far make a verdict, an estimate that is not noisy. Asked when the budget
  /// is over and each list has bucket_count, and from then on twice a budget. `budgets`: how many
  /// of them have passed. A lane may go on for a while, to be more precise.
  [[nodiscard]] virtual bool even(std::span<const process_pairs> /*lists*/,
                                  double /*budgets*/) const {
    return true;
  }
  /// Null: this lane measures by random pairs alone.
  virtual single_windows* singly() { return nullptr; }
};

/// Nanoseconds a call, as the lane's clock gave them.
struct timed_lists {
  std::vector<process_pairs> pairs;  ///< by list, in order of time; of protocols in random pairs
  /// Of a protocol that has the reference first: its calls, and those of each window of the
  /// candidate, of which the first `warm_ups` do not count.
  std::vector<double> reference_ns;
  std::vector<std::vector<double>> candidate_ns;
  std::size_t warm_ups = 0;
};

/// Plain class: draws orders from `order` and looks at `clock`, which decides by the budget alone.
class timing_session {
 public:
  /// All outlive it. `budget_s`: wall seconds of both sides, from now on; rehearsing is among them.
  /// paired/1 takes more while it is not even (most_budgets), or buckets have no pair.
  timing_session(timed_sides& sides, const measure_protocol& protocol, double budget_s,
                 base::random_stream& order, const base::clock& clock)
      : sides_(sides),
        protocol_(protocol),
        budget_s_(budget_s),
        order_(order),
        clock_(clock),
        start_(clock.now_ns()) {}

  /// Measures once. What was measured before a finding is in times(). Where the reference comes
  /// first, a candidate that takes too long is a `timeout` of stage `time`: it is looked at before
  /// each of its windows.
  finding run();
  [[nodiscard]] timed_lists& times() { return times_; }
  /// Since it was made.
  [[nodiscard]] double seconds() const {
    return static_cast<double>(clock_.now_ns() - start_) * 1e-9;
  }

 private:
  finding until_narrow();
  finding in_pairs();
  finding reference_first();
  /// Behind the time that paired/1 has, with so many pairs: whether they are too few because calls
  /// of the candidate are long. Else ok: what to make of few pairs is for others.
  [[nodiscard]] finding too_slow(std::size_t measured) const;
  [[nodiscard]] bool every_bucket_has_one() const;

  timed_sides& sides_;
  const measure_protocol& protocol_;
  double budget_s_;
  base::random_stream& order_;
  const base::clock& clock_;
  base::nanoseconds_t start_;
  timed_lists times_;
};

}  // namespace quern::env
