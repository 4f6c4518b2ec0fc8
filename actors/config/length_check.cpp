#include "actors/config/length_check.hpp"

namespace quern::actors {

base::status check_positions(const run_config& config, const policy::model_config& model) {
  const std::int64_t prompt = config.policy.max_prompt_tokens,
                     answer = config.policy.max_new_tokens, positions = model.max_positions;
  if (prompt + answer <= positions) return {};
  if (prompt >= positions)
    return base::fail(base::errc::invalid_argument,
                      "the model takes {} tokens in all (max_position_embeddings), and "
                      "policy.max_prompt_tokens = {} leaves no room for an answer: lower that",
                      positions, prompt);
  return base::fail(
      base::errc::invalid_argument,
      "policy.max_new_tokens is {} and policy.max_prompt_tokens {}, {} together, but the model "
      "takes "
      "{} tokens in all (max_position_embeddings): lower policy.max_new_tokens to {} or less, or "
      "policy.max_prompt_tokens",
      answer, prompt, prompt + answer, positions, positions - prompt);
}

}  // namespace quern::actors
