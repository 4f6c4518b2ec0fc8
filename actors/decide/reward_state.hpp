// Smoothing of rewards before the group's own normalisation (CUDA-L1 Eq. 6): a lucky or cheating
// outlier must not drive a step.
#pragma once

#include <cstdint>
#include <deque>

#include "base/json.hpp"
#include "base/status.hpp"

namespace quern::actors {

struct smoothing_options {
  double clip = 1.5;                ///< k
  std::int64_t window = 1000;       ///< rewards that mu and sigma are taken over
  std::int64_t update_every = 100;  ///< rewards between two updates
};

/// smooth(r) = clip((r - mu) / sigma, -k, k).
///
/// Scope: one state for a run, all tasks together (rewards are ratios and comparable). Update: mu
/// and the population standard deviation sigma of the last `window` rewards, taken anew after every
/// `update_every`th reward, in ledger order; between updates they stand still, so that the members
/// of a group share them. Before the first update mu = 0 and sigma = 1: only the clip acts. Zero
/// sigma (below 1e-6: all rewards equal): sigma = 1, so equal rewards give 0 and nothing is blown
/// up. Rewards are kept as integers in 1e-9, which makes the sums exact and the state equal after
/// any resume. Not thread-safe. Checkpointed with to_json.
class reward_state {
 public:
  explicit reward_state(smoothing_options options) : options_(options) {}

  /// The reward of a sample that was admitted as event `sequence` of the ledger. Errors:
  /// invalid_argument if the sequence does not grow or the reward is not finite or beyond 1e6.
  base::status observe(std::int64_t sequence, double reward);
  [[nodiscard]] double smooth(double reward) const;

  [[nodiscard]] double mu() const { return mu_; }
  [[nodiscard]] double sigma() const { return sigma_; }
  /// The last ledger event that was observed; after a resume, rewards follow from there.
  [[nodiscard]] std::int64_t sequence() const { return sequence_; }

  /// {"quern_reward_state":1, "sequence", "seen", "mu_bits", "sigma_bits", "recent_e9":[...]}:
  /// floats as bit patterns, so that nothing is lost.
  [[nodiscard]] base::json to_json() const;
  /// Errors: version, corrupt.
  static base::expected<reward_state> from_json(const base::json& value, smoothing_options options);

 private:
  void update();

  smoothing_options options_;
  std::int64_t sequence_ = -1;
  std::int64_t seen_ = 0;
  double mu_ = 0;
  double sigma_ = 1;
  std::deque<std::int64_t> recent_;
};

}  // namespace quern::actors
