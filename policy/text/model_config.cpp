// Checks and sizes of a model configuration; reading and writing its files is in
// model_config_json.cpp.
#include "policy/text/model_config.hpp"

#include <cmath>

namespace quern::policy {

std::string_view model_type(architecture arch) {
  switch (arch) {
    case architecture::qwen2:
      return "qwen2";
    case architecture::qwen3:
      return "qwen3";
    case architecture::llama:
      break;
  }
  return "llama";
}

namespace {

using base::errc;
using base::fail;

base::status check_size(std::string_view name, std::int64_t value, std::int64_t limit) {
  if (value < 1 || value > limit)
    return fail(errc::invalid_argument, "{} is {}; it must be 1 to {}", name, value, limit);
  return {};
}

base::status check_token(std::string_view name, std::int32_t token, std::int64_t vocab_size) {
  if (token < 0 || token >= vocab_size)
    return fail(errc::invalid_argument, "{} is {}, outside the vocabulary of {}", name, token,
                vocab_size);
  return {};
}

base::status check_positive(std::string_view name, double value) {
  if (!std::isfinite(value) || value <= 0)
    return fail(errc::invalid_argument, "{} is {}; it must be positive and finite", name, value);
  return {};
}

base::status check_scaling(const llama3_rope& rope) {
  QUERN_CHECK(check_positive("rope factor", rope.factor));
  QUERN_CHECK(check_positive("rope low_freq_factor", rope.low_freq_factor));
  QUERN_CHECK(check_positive("rope high_freq_factor", rope.high_freq_factor));
  QUERN_CHECK(check_size("rope original_max_position_embeddings", rope.original_max_positions,
                         std::int64_t{1} << 31));
  if (rope.high_freq_factor <= rope.low_freq_factor)
    return fail(errc::invalid_argument,
                "rope high_freq_factor is {}; it must be above low_freq_factor, which is {}",
                rope.high_freq_factor, rope.low_freq_factor);
  return {};
}

}  // namespace

base::status validate(const model_config& config) {
  constexpr std::int64_t matrix_limit = (std::int64_t{1} << 31) - 1;
  QUERN_CHECK(check_size("vocab_size", config.vocab_size, matrix_limit));
  QUERN_CHECK(check_size("hidden_size", config.hidden_size, 1 << 20));
  QUERN_CHECK(check_size("intermediate_size", config.intermediate_size, 1 << 22));
  QUERN_CHECK(check_size("num_hidden_layers", config.layers, 4096));
  QUERN_CHECK(check_size("num_attention_heads", config.heads, 1 << 14));
  QUERN_CHECK(check_size("num_key_value_heads", config.kv_heads, config.heads));
  QUERN_CHECK(check_size("head_dim", config.head_dim, 1 << 14));
  QUERN_CHECK(check_size("max_position_embeddings", config.max_positions, matrix_limit));
  if (config.heads % config.kv_heads != 0)
    return fail(errc::invalid_argument,
                "num_attention_heads is {}, no multiple of num_key_value_heads, which is {}",
                config.heads, config.kv_heads);
  if (config.head_dim % 2 != 0)
    return fail(errc::invalid_argument, "head_dim is {}; rotary positions need an even one",
                config.head_dim);
  QUERN_CHECK(check_positive("rms_norm_eps", config.rms_norm_eps));
  QUERN_CHECK(check_positive("rope_theta", config.rope_theta));
  QUERN_CHECK(check_positive("initializer_range", config.initializer_range));
  if (config.rope_scaling) QUERN_CHECK(check_scaling(*config.rope_scaling));
  if (config.bos_token)
    QUERN_CHECK(check_token("bos_token_id", *config.bos_token, config.vocab_size));
  if (config.pad_token)
    QUERN_CHECK(check_token("pad_token_id", *config.pad_token, config.vocab_size));
  for (const std::int32_t token : config.eos_tokens)
    QUERN_CHECK(check_token("eos_token_id", token, config.vocab_size));
  return {};
}

std::int64_t parameter_count(const model_config& config) {
  const std::int64_t d = config.hidden_size;
  const std::int64_t q = config.q_size();
  const std::int64_t kv = config.kv_size();
  std::int64_t layer = 2 * d + d * (q + 2 * kv) + q * d + 3 * d * config.intermediate_size;
  if (config.qkv_bias()) layer += q + 2 * kv;
  if (config.qk_norm()) layer += 2 * config.head_dim;
  const std::int64_t matrices = config.tied_embeddings ? 1 : 2;
  return matrices * config.vocab_size * d + config.layers * layer + d;
}

}  // namespace quern::policy
