// Log-probs of given tokens.
#include "policy/engine/evaluate.hpp"

#include "policy/engine/log_probs.hpp"

namespace quern::policy {

base::expected<std::vector<std::vector<float>>> token_log_probs(
    decoder& model, const model_weights& weights, std::span<const training_sequence> sequences,
    const packing& how, std::int64_t valid_tokens, std::int64_t chunk) {
  QUERN_TRY(const auto batches, pack(model.config(), sequences, how, weights.embedding.device()));
  std::vector<std::vector<float>> result;
  for (const training_sequence& s : sequences)
    result.emplace_back(s.tokens.size(), 0.0F);
  output_head head(chunk, valid_tokens);
  for (const micro_batch& batch : batches) {
    const at::Tensor hidden = model.forward(weights, batch.rows, false);
    const auto visit = [&](const head_chunk& part) {
      for (std::size_t i = 0; i < part.log_probs.size(); ++i) {
        const prediction& p = batch.predictions[part.first + i];
        result[static_cast<std::size_t>(p.sequence)][static_cast<std::size_t>(p.token)] =
            static_cast<float>(part.log_probs[i]);
      }
    };
    head.run(hidden, weights.head, batch, sequences, visit, nullptr, nullptr);
  }
  return result;
}

}  // namespace quern::policy
