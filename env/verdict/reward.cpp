// The reward functions and CUDA-L1's rounding.
#include "env/verdict/reward.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <fmt/ranges.h>

#include "base/text.hpp"

namespace quern::env {

namespace {

/// The frame that all share: nothing where nothing is known, 0 for failures, else f(speed-up). A
/// verdict that was only verified has no speed-up and so no reward that depends on it.
template <class F>
reward_value of_speedup(const verdict& what, F f) {
  if (!judges_candidate(what.kind)) return std::nullopt;
  if (what.kind != verdict_kind::ok) return 0.0;
  if (!what.speedup_e2) return std::nullopt;
  return f(static_cast<double>(*what.speedup_e2) / 100.0);
}

reward_value speedup_capped(const verdict& what) {
  return of_speedup(what, [](double s) { return std::min(3.0, s); });
}

reward_value speedup(const verdict& what) {
  return of_speedup(what, [](double s) { return s; });
}

reward_value correct(const verdict& what) {
  if (!judges_candidate(what.kind)) return std::nullopt;
  return what.kind == verdict_kind::ok ? 1.0 : 0.0;
}

reward_value correct_speedup(const verdict& what) {
  return of_speedup(what, [](double s) { return 0.3 + s; });
}

reward_value sigmoid(const verdict& what) {
  return of_speedup(what, [](double s) { return 1.0 / (1.0 + std::exp(-(1.0 + s - 1.8))); });
}

reward_value speedup_cuda_l1(const verdict& what) {
  return of_speedup(what, [&](double s) {
    // A verdict of a suite with a higher limit of its own, or from before a second look, has no
    // `confirmed`.
    return what.confirmed.value_or(false) ? s : std::min(3.0, s);
  });
}

constexpr std::array<reward_function, 6> rewards{{
    {"speedup_capped/1", "", "0 unless ok, else min(3, s)", "Dr. Kernel", speedup_capped},
    {"speedup/1", "", "0 unless ok, else s", "CUDA-L1, raw", speedup},
    {"speedup_cuda_l1/1", "", "0 unless ok, else s; min(3, s) unless measured twice",
     "CUDA-L1, verified", speedup_cuda_l1},
    {"correct/1", "", "0 unless ok, else 1", "self-training", correct},
    {"correct_speedup/1", "kevin/1", "0 unless ok, else 0.3 + s", "Kevin", correct_speedup},
    {"sigmoid/1", "makora_sigmoid/1", "0 unless ok, else 1 / (1 + exp(-(1 + s - 1.8)))", "Makora",
     sigmoid},
}};

}  // namespace

std::span<const reward_function> all_rewards() {
  return rewards;
}

reward_value reward_function::of(const verdict& what) const {
  const bool asked = baseline != baseline_choice::of_task;
  const bool same = what.baseline && what.baseline->name == name_of(baseline);
  if (asked && !same && what.kind == verdict_kind::ok && what.speedup_e2) return std::nullopt;
  return compute(what);
}

std::string full_name(const reward_function& reward) {
  if (reward.baseline == baseline_choice::of_task) return std::string(reward.name);
  return fmt::format("{}@{}", reward.name, name_of(reward.baseline));
}

base::expected<reward_function> find_reward(std::string_view full) {
  const std::size_t at = full.find('@');
  const auto name = full.substr(0, at);
  auto baseline = baseline_choice::of_task;
  if (at != std::string_view::npos) {
    const auto found = parse_baseline(full.substr(at + 1));
    if (!found)
      return base::fail(base::errc::not_found, "there is no baseline '{}'{}; known are {}",
                        full.substr(at + 1),
                        base::did_you_mean(full.substr(at + 1), all_baselines()),
                        fmt::join(all_baselines(), ", "));
    baseline = *found;
  }
  std::vector<std::string_view> known;
  for (reward_function one : rewards) {
    one.baseline = baseline;
    if (one.name == name || (!one.also.empty() && one.also == name)) return one;
    known.push_back(one.name);
    if (!one.also.empty()) known.push_back(one.also);
  }
  return base::fail(base::errc::not_found, "there is no reward function '{}'{}; known are {}", name,
                    base::did_you_mean(name, known), fmt::join(known, ", "));
}

std::int64_t round_toward_one_e2(double speedup) {
  if (!std::isfinite(speedup) || speedup <= 0) return 0;
  const double hundredths = std::min(speedup, 1e7) * 100.0;
  // 1.15 * 100 is 114.99999999999999 in doubles: a decimal that is meant to be exact stays what it
  // is.
  constexpr double slack = 1e-6;
  return static_cast<std::int64_t>(speedup >= 1.0 ? std::floor(hundredths + slack)
                                                  : std::min(100.0, std::ceil(hundredths - slack)));
}

}  // namespace quern::env
