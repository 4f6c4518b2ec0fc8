// Rewards: pure, named, versioned functions of verdicts. A name fixes the formula for ever, so that
// rewards can be computed again from stored verdicts; a changed formula gets a new version.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "env/verdict/baseline.hpp"
#include "env/verdict/verdict.hpp"

namespace quern::env {

/// No value: the verdict says nothing about the candidate (judges_candidate is false), so there is
/// nothing to reward.
using reward_value = std::optional<double>;

/// A reward function. `s` in the formulas is speedup_e2 / 100, rounded toward 1 where the protocol
/// rounds so, over the baseline that the name says: `speedup/1@graph`; without one over whatever
/// the verdict was measured against, which is the task's own baseline unless somebody chose
/// another.
struct reward_function {
  std::string_view name;     ///< "speedup_capped/1"
  std::string_view also;     ///< a second name, after who published it: "kevin/1"; may be empty
  std::string_view formula;  ///< for people
  std::string_view source;   ///< whose reward it is
  reward_value (*compute)(const verdict&);
  baseline_choice baseline = baseline_choice::of_task;

  /// None, too, for a speed-up over another baseline than the name's.
  [[nodiscard]] reward_value of(const verdict& what) const;
};

/// All of them; each is 0 for a failure of the candidate, and for `ok`:
///
/// - speedup_capped/1: min(3, s), Dr. Kernel's.
/// - speedup/1: s, CUDA-L1's raw reward (arXiv 2507.14111, Eq. 2); cap or smooth it elsewhere.
/// - speedup_cuda_l1/1: s, but at most 3 as long as no second measurement has borne it out: the
///   paper's rounded speed-up and its strict verification (arXiv 2507.14111). Claims are rounded,
///   large ones verified. Its other limit, twice the best known, is no property of a verdict: the
///   judge applies it. Smoothing and clipping at 1.5 sigma are the loss's.
/// - correct/1: 1, for self-training.
/// - correct_speedup/1, also kevin/1: 0.3 + s, the score of one turn of Kevin (arXiv 2507.11948),
///   whose sum over turns with discount 0.4 is not here: an episode has one turn.
/// - sigmoid/1, also makora_sigmoid/1: 1 / (1 + exp(-(1 + s - 1.8))), Makora's (arXiv 2602.11000),
///   whose s is over TorchInductor.
std::span<const reward_function> all_rewards();

/// By either name, with or without `@baseline`. Error: unknown name or baseline, with the nearest
/// known one.
base::expected<reward_function> find_reward(std::string_view name);

/// "speedup_capped/1@graph"; without a baseline the name alone.
std::string full_name(const reward_function& reward);

/// Speed-up in 1/100, rounded toward 1: 1.118 -> 111, 0.992 -> 100 (CUDA-L1's conservative
/// rounding). `speedup` must be finite and positive; anything else gives 0. Values beyond 10^7 are
/// cut there.
std::int64_t round_toward_one_e2(double speedup);

}  // namespace quern::env
