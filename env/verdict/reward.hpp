// Rewards: pure, named, versioned functions of verdicts. A name fixes the formula for ever, so that
// rewards can be computed again from stored verdicts; a changed formula gets a new version.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/status.hpp"
#include "env/verdict/verdict.hpp"

namespace quern::env {

/// No value: the verdict says nothing about the candidate (judges_candidate is false), so there is
/// nothing to reward.
using reward_value = std::optional<double>;

/// A reward function. `s` in the formulas is speedup_e2 / 100.
struct reward_function {
  std::string_view name;     ///< "speedup_capped/1"
  std::string_view formula;  ///< for people
  reward_value (*of)(const verdict&);
};

/// All of them:
///   speedup_capped/1     0 unless ok, else min(3, s)
///   speedup/1            0 unless ok, else s                       (CUDA-L1's raw reward; cap or
///   smooth it elsewhere) correct/1            0 unless ok, else 1 (self-training)
///   correct_speedup/1    0 unless ok, else 0.3 + s                 (Kevin)
///   sigmoid/1            0 unless ok, else 1 / (1 + exp(-(1 + s - 1.8)))    (Makora)
std::span<const reward_function> all_rewards();

/// Error: unknown name, with the nearest known one.
base::expected<reward_function> find_reward(std::string_view name);

/// Speed-up in 1/100, rounded toward 1: 1.118 -> 111, 0.992 -> 100 (CUDA-L1's conservative
/// rounding). `speedup` must be finite and positive; anything else gives 0. Values beyond 10^7 are
/// cut there.
std::int64_t round_toward_one_e2(double speedup);

}  // namespace quern::env
