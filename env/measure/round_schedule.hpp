// What comes next in a measurement that does not stop by its interval: protocols that are bounded
// by a time or by a number of runs. Pure: told what time it is and what was counted.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "env/measure/protocols.hpp"

namespace quern::env {

/// One measurement of both sides under one protocol. Plain class.
class round_schedule {
 public:
  /// `budget_s`: wall seconds for both sides; a protocol with a number of runs is given up only
  /// beyond ten times as long (and a minute), so that it ends.
  round_schedule(const measure_protocol& protocol, double budget_s)
      : protocol_(&protocol), budget_s_(budget_s) {}

  /// Whether windows of one side wait until the other has had all of its own.
  [[nodiscard]] bool one_after_the_other() const {
    return protocol_->order == call_order::reference_first;
  }
  /// Whether each call is a round of its own; else a round is a window of each side, its mean.
  [[nodiscard]] bool every_call_counts() const { return protocol_->runs > 0; }
  /// Calls of each side before the clock counts, after `done` of them.
  [[nodiscard]] bool warming_up(std::size_t done) const { return done < protocol_->warm_ups; }
  /// Seconds after the beginning at which a protocol with a number of runs is given up.
  [[nodiscard]] double longest_s() const;
  /// Whether to go on, `seconds` after the beginning, with `counted` rounds recorded.
  [[nodiscard]] bool more(double seconds, std::size_t counted) const;

  /// Rounds in which run i of either side is a pair, without those that the protocol discards;
  /// the shorter side says how many.
  [[nodiscard]] process_pairs rounds(std::span<const double> ref_ns,
                                     std::span<const double> cand_ns) const;

 private:
  const measure_protocol* protocol_;
  double budget_s_;
};

}  // namespace quern::env
