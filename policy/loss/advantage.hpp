// From rewards to advantages: the rolling statistics that smooth rewards, and the baseline inside a
// group.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/json.hpp"
#include "base/status.hpp"
#include "policy/loss/preset.hpp"

namespace quern::policy {

/// Mean and deviation of rewards over consecutive blocks. Rewards are added one by one in the order
/// of the ledger, so the state after the n-th sample is a function of the ledger alone, whatever
/// was paused, killed or reordered on the way. The statistics in use are those of the last complete
/// block; before the first one is complete nothing is smoothed.
struct reward_statistics {
  std::int64_t count = 0;  ///< rewards in the open block
  double mean = 0;         ///< of the open block (Welford)
  double squares = 0;      ///< sum of squared differences from the mean, of the open block
  bool ready = false;      ///< a block has been completed
  double mu = 0;           ///< of the last complete block
  double sigma = 0;        ///< population deviation of the last complete block

  void add(double reward, int block);
  /// clip((reward - mu) / sigma, -k, k); the reward itself before the first block is complete, or
  /// when sigma is below 1e-6.
  double smooth(double reward, double k) const;
  bool operator==(const reward_statistics&) const = default;
};

base::json to_json(const reward_statistics& value);
base::expected<reward_statistics> reward_statistics_from_json(const base::json& value);

/// Advantages of one group, in the order of its rewards (already smoothed where the preset
/// smooths).
///   group_normalised, group_smoothed   (r - mean) / (s + std_epsilon), s the unbiased standard
///   deviation group_centred                      r - mean reinforce       r sft             1
/// Zero-variance rule, for the presets with a baseline: where all rewards of the group are equal
/// within 1e-9 * max(1, |mean|), or the group has fewer than two members, every advantage is
/// exactly 0; its tokens still count in the denominator. Then negative advantages are multiplied by
/// negative_scale.
std::vector<double> group_advantages(const loss_parameters& parameters,
                                     std::span<const double> rewards);

}  // namespace quern::policy
