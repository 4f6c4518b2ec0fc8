// Log-probabilities of given tokens under given weights: for the reference of the KL term, the
// proximal policy, and to measure how far generator and trainer are apart.
#pragma once

#include <span>
#include <vector>

#include "policy/engine/sequence.hpp"

namespace quern::policy {

/// For each sequence one vector like `tokens`: the log-prob of each token given those before it, at
/// the sequence's temperature, for the tokens that its loss_mask selects; 0 elsewhere. Ids at or
/// above `valid_tokens` (0: none) are left out of the softmax. Logits of `chunk` rows are there at
/// once.
base::expected<std::vector<std::vector<float>>> token_log_probs(
    decoder& model, const model_weights& weights, std::span<const training_sequence> sequences,
    const packing& how = {}, std::int64_t valid_tokens = 0, std::int64_t chunk = 1024);

}  // namespace quern::policy
