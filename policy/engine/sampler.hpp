// Draws one token from a row of logits.
#pragma once

#include <cstdint>
#include <span>

namespace quern::policy {

struct sampled_token {
  std::int32_t token = 0;
  float log_prob = 0;      ///< at the sampling temperature (greedy: at 1)
  float raw_log_prob = 0;  ///< at temperature 1
};

/// By inversion: the first id whose cumulative probability, added up in double from id 0 on,
/// exceeds u times the total. `u` lies in the open interval (0, 1), so an id of probability 0 is
/// never drawn. `logits` holds the ids that may be drawn.
sampled_token sample_token(std::span<const float> logits, double temperature, double u);

/// The token that is given, with the same bits of log-probs as if it had been drawn.
sampled_token given_token(std::span<const float> logits, double temperature, std::int32_t token);

/// The highest logit, the lowest id among equals.
sampled_token greedy_token(std::span<const float> logits);

/// 53 bits of the request's random numbers for its `index`-th token, in the open interval (0, 1).
double sampling_uniform(std::uint64_t seed, std::uint64_t request, std::uint64_t index);

}  // namespace quern::policy
