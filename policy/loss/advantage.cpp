// Rolling reward statistics and group baselines.
#include "policy/loss/advantage.hpp"

#include <algorithm>
#include <cmath>

namespace quern::policy {
namespace {

constexpr double smallest_sigma = 1e-6;
constexpr double equal_within = 1e-9;

}  // namespace

void reward_statistics::add(double reward, int block) {
  ++count;
  const double step = reward - mean;
  mean += step / static_cast<double>(count);
  squares += step * (reward - mean);
  if (count < block) return;
  mu = mean;
  sigma = std::sqrt(squares / static_cast<double>(count));
  ready = true;
  count = 0;
  mean = 0;
  squares = 0;
}

double reward_statistics::smooth(double reward, double k) const {
  if (!ready || sigma < smallest_sigma) return reward;
  return std::clamp((reward - mu) / sigma, -k, k);
}

base::json to_json(const reward_statistics& value) {
  return {{"count", value.count}, {"mean", value.mean}, {"squares", value.squares},
          {"ready", value.ready}, {"mu", value.mu},     {"sigma", value.sigma}};
}

base::expected<reward_statistics> reward_statistics_from_json(const base::json& value) {
  reward_statistics result;
  QUERN_TRY(result.count, base::get<std::int64_t>(value, "count"));
  QUERN_TRY(result.mean, base::get<double>(value, "mean"));
  QUERN_TRY(result.squares, base::get<double>(value, "squares"));
  QUERN_TRY(result.ready, base::get<bool>(value, "ready"));
  QUERN_TRY(result.mu, base::get<double>(value, "mu"));
  QUERN_TRY(result.sigma, base::get<double>(value, "sigma"));
  if (result.count < 0 || result.squares < 0 || result.sigma < 0)
    return base::fail(base::errc::corrupt,
                      "reward statistics with a negative count, sum of squares or deviation");
  return result;
}

std::vector<double> group_advantages(const loss_parameters& parameters,
                                     std::span<const double> rewards) {
  std::vector<double> result(rewards.begin(), rewards.end());
  if (parameters.name == preset::sft) std::fill(result.begin(), result.end(), 1.0);
  if (uses_group_baseline(parameters.name)) {
    const auto n = static_cast<double>(rewards.size());
    double mean = 0;
    for (double r : rewards)
      mean += r / n;
    const auto [low, high] = std::minmax_element(rewards.begin(), rewards.end());
    if (rewards.size() < 2 || *high - *low <= equal_within * std::max(1.0, std::abs(mean))) {
      std::fill(result.begin(), result.end(), 0.0);
      return result;
    }
    double squares = 0;
    for (double r : rewards)
      squares += (r - mean) * (r - mean);
    const double scale = parameters.name == preset::group_centred
                             ? 1.0
                             : 1.0 / (std::sqrt(squares / (n - 1)) + parameters.std_epsilon);
    for (double& a : result)
      a = (a - mean) * scale;
  }
  for (double& a : result)
    if (a < 0) a *= parameters.negative_scale;
  return result;
}

}  // namespace quern::policy
