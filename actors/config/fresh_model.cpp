#include "actors/config/fresh_model.hpp"

namespace quern::actors {

policy::model_config fresh_model(const run_config& config, std::int64_t vocabulary,
                                 std::int32_t end_token) {
  policy::model_config model;
  model.arch = policy::architecture::qwen3;
  model.vocab_size = (vocabulary + 15) / 16 * 16;
  model.hidden_size = config.policy.width;
  model.intermediate_size = config.policy.mlp_width;
  model.layers = config.policy.layers;
  model.heads = config.policy.heads;
  model.kv_heads = config.policy.kv_heads;
  model.head_dim = config.policy.head_width;
  model.max_positions = config.policy.max_prompt_tokens + config.policy.max_new_tokens;
  model.tied_embeddings = true;
  model.eos_tokens = {end_token};
  return model;
}

}  // namespace quern::actors
