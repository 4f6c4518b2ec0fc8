// The figures of an ablation: pure functions of the arms' answers. Intervals are quantiles of a
// bootstrap that draws tasks and seeds, each with all of its answers: answers to one task, or by
// one policy, are not independent of each other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "tools/ablate/answers.hpp"
#include "tools/bench/statistics.hpp"

namespace quern::tools {

/// One run of an arm.
struct arm_result {
  std::int64_t seed = 0;
  std::vector<held_out_answer> answers;
  std::int64_t evaluations = 0;          ///< judged samples of its own run
  std::int64_t shared_evaluations = 0;   ///< of the stages before it
  double seconds = 0;                    ///< of its own run, evaluation set included
  double shared_seconds = 0;             ///< of the stages before it
  bool has_times = true;                 ///< both are known
  std::vector<shown_answer> shown = {};  ///< to prompts that showed kernels, with the control's
  /// The same prompts, answered by the weights that its own run began with; empty where it did not
  /// learn.
  std::vector<held_out_answer> before = {};
};

struct ablation_arm {
  std::string name;
  std::vector<arm_result> seeds;
};

/// 95 % of the draws lie in it.
struct drawn_interval {
  double low = 0, high = 0;
};

struct arm_row {
  std::string name;
  speed_statistics speed;  ///< of all judged answers of all seeds
  double reward = 0;       ///< mean
  std::int64_t unjudged = 0;
  drawn_interval mean, geometric_mean, success, faster, mean_reward;
  std::int64_t evaluations = 0, shared_evaluations = 0;  ///< of all seeds
  double seconds = 0, shared_seconds = 0;                ///< of all seeds
  bool has_times = true;                                 ///< of all seeds
};

/// A mean reward is the product of these, since a failure has none.
struct reward_parts {
  double right = 0;         ///< Share of right answers.
  double right_reward = 0;  ///< Their mean reward; 0 where none is right.
};

/// Of two arms, over the answers that both have judged, by seed, task and ordinal.
struct arm_difference {
  std::string first, second;
  std::int64_t pairs = 0;
  double reward_first = 0, reward_second = 0;  ///< means over the pairs
  reward_parts parts_first, parts_second;
  double reward = 0;  ///< second - first
  drawn_interval reward_interval;
  std::optional<double> ratio;  ///< second / first; none where the first is 0, or is in some draw
  drawn_interval ratio_interval;
  double success = 0;  ///< of the shares that are right: second - first
  drawn_interval success_interval;
  std::int64_t both_right = 0;  ///< pairs
  /// Of these: the geometric mean of the second's speed-up over the first's. A reward may end at a
  /// largest one, this does not. None where no pair is right on both sides.
  std::optional<double> speed_ratio;
  drawn_interval speed_ratio_interval;  ///< draws without such a pair are left out
  /// The lower bound of `reward` is above 0.
  [[nodiscard]] bool holds() const { return pairs > 0 && reward_interval.low > 0; }
};

struct ablation_table {
  std::vector<arm_row> rows;
  std::vector<arm_difference> differences;
  std::vector<arm_difference> gains;  ///< what each arm's own run brought on its own prompts
  /// Of the arms that `differences` compares and that both learnt: `reward_first` and
  /// `reward_second` are their gains, over the pairs that were judged before and after. Of its
  /// other figures only the interval of `reward` means something.
  std::vector<arm_difference> between_gains;
  /// The same arms by the answers of the weights that their own runs began with.
  std::vector<arm_difference> before;
};

/// `seed` addresses the bootstrap.
arm_row row_of(const ablation_arm& arm, std::uint64_t seed);
arm_difference difference_of(const ablation_arm& first, const ablation_arm& second,
                             std::uint64_t seed);

/// Rows in the order of the arms. Differences of each arm from the one before it, and of each
/// contrastive arm from +grpo. Gains of the arms that learnt: a contrastive arm that answers better
/// than +grpo may have done so before it learnt, by what its prompts show.
ablation_table make_table(const std::vector<ablation_arm>& arms, std::uint64_t seed);

/// "+grpo over stage1+2: mean reward 0.60 after 0.50, ... It holds: ...".
std::string sentence_of(const arm_difference& of);

/// "Where both are right, in 40 pairs, +grpo is x1.20 as fast (1.05 .. 1.31)."; empty: they never
/// are.
std::string speed_sentence_of(const arm_difference& of);

/// "What its own run brought: +grpo +0.400, +contrastive:bucket +0.100 over 50 pairs, difference
/// -0.300 (-0.700 .. +0.100)."
std::string gains_sentence_of(const arm_difference& of);

/// Of a gain: "Right: 53.3 % before and 54.4 % after; mean reward of these: 1.593 and 2.222.".
std::string parts_sentence_of(const arm_difference& of);

/// For people.
std::string to_text(const ablation_table& table);
/// ablation.json (docs/ablation.md).
base::ordered_json to_json(const ablation_table& table);
/// One of its "differences".
base::ordered_json to_json(const arm_difference& one);

}  // namespace quern::tools
