// Sampling by inversion from addressed random numbers.
#include "policy/engine/sampler.hpp"

#include <algorithm>
#include <cmath>

#include "base/random.hpp"

namespace quern::policy {
namespace {

/// log of the sum of e^((z - top) / temperature).
double log_sum(std::span<const float> logits, double top, double temperature) {
  double sum = 0;
  for (float z : logits)
    sum += std::exp((z - top) / temperature);
  return std::log(sum);
}

sampled_token with_log_probs(std::span<const float> logits, double temperature, double top,
                             double log_total, std::size_t token) {
  sampled_token result;
  result.token = static_cast<std::int32_t>(token);
  result.log_prob = static_cast<float>((logits[token] - top) / temperature - log_total);
  result.raw_log_prob = temperature == 1
                            ? result.log_prob
                            : static_cast<float>(logits[token] - top - log_sum(logits, top, 1));
  return result;
}

}  // namespace

sampled_token sample_token(std::span<const float> logits, double temperature, double u) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double total = 0;
  for (float z : logits)
    total += std::exp((z - top) / temperature);
  const double goal = u * total;
  double sum = 0;
  std::size_t chosen = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double p = std::exp((logits[i] - top) / temperature);
    if (p > 0) chosen = i;  // also the answer if rounding leaves the goal above the last sum
    sum += p;
    if (sum > goal) break;
  }
  return with_log_probs(logits, temperature, top, std::log(total), chosen);
}

sampled_token given_token(std::span<const float> logits, double temperature, std::int32_t token) {
  const double top = *std::max_element(logits.begin(), logits.end());
  return with_log_probs(logits, temperature, top, log_sum(logits, top, temperature),
                        static_cast<std::size_t>(token));
}

sampled_token greedy_token(std::span<const float> logits) {
  const auto best = std::max_element(logits.begin(), logits.end());
  sampled_token result;
  result.token = static_cast<std::int32_t>(best - logits.begin());
  result.log_prob = static_cast<float>(-log_sum(logits, *best, 1));
  result.raw_log_prob = result.log_prob;
  return result;
}

double sampling_uniform(std::uint64_t seed, std::uint64_t request, std::uint64_t index) {
  const auto bits =
      base::random_block(base::random_address::of(seed, "policy/sample", {request}), index);
  const std::uint64_t word = (static_cast<std::uint64_t>(bits[0]) << 32) | bits[1];
  return (static_cast<double>(word >> 12) + 0.5) * 0x1p-52;
}

}  // namespace quern::policy
