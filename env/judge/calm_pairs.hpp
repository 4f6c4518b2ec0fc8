// Which pairs of windows count, where other machines may use the core on which they were measured.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "base/clock.hpp"
#include "env/measure/estimate.hpp"

namespace quern::env {

/// The pairs of one measurement, in their order. If there are enough of them, those that count were
/// measured in one state of the core. While another hardware thread of it is busy, calls take up to
/// twice as long, and not all kinds of work by the same factor. So pairs of both states are uneven.
///
/// What a candidate does may lower the clock rate, which looks like sharing: it could have those
/// pairs left out in which it was slow. So all count where its windows are shared more often than
/// those of the reference, by more than chance explains. Plain class.
class calm_pairs {
 public:
  /// Of both windows of the pairs that count.
  enum class choice { calm, shared, all };

  /// So many in one state are enough: two for each bucket of an estimate, or one, where these are
  /// most of all pairs.
  static constexpr std::size_t enough = 2 * bucket_count, enough_of_most = bucket_count;

  /// Whether looks say that a window's core was shared: at least two, and more than a quarter.
  static bool is_shared(std::span<const base::nanoseconds_t> looks);
  /// The next pair.
  void saw(bool reference_shared, bool candidate_shared);
  /// The calm ones where there are enough; else those whose windows were both shared, where there
  /// are enough; else all. All, too, where the candidate's windows alone were shared more often.
  [[nodiscard]] choice chosen() const;
  /// Whether pair `number` counts, from 0 on.
  [[nodiscard]] bool counts(std::size_t number, choice by) const;

 private:
  enum class state : unsigned char { calm, only_reference, only_candidate, both };

  [[nodiscard]] std::size_t count(state of) const { return counts_[static_cast<std::size_t>(of)]; }
  [[nodiscard]] bool are_enough(state of) const {
    return count(of) >= enough || (count(of) >= enough_of_most && 2 * count(of) > pairs_.size());
  }

  std::vector<state> pairs_;
  /// How many pairs are in each state.
  std::array<std::size_t, 4> counts_{};
};

}  // namespace quern::env
