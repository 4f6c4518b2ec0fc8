// Shapes of Qwen2.5, for benchmarks with random weights: speed does not depend on values.
#pragma once

#include <string>

#include "base/status.hpp"
#include "policy/text/model_config.hpp"

namespace quern::tools {

/// By size: "0.5B", "1.5B", "7B".
inline base::expected<policy::model_config> qwen_shape(const std::string& size) {
  policy::model_config c;
  c.arch = policy::architecture::qwen2;
  c.vocab_size = 151936;
  c.max_positions = 32768;
  c.rope_theta = 1e6;
  c.dtype = policy::weight_dtype::bf16;
  c.tied_embeddings = size != "7B";
  if (size == "0.5B") {
    c.hidden_size = 896, c.intermediate_size = 4864, c.layers = 24;
    c.heads = 14, c.kv_heads = 2, c.head_dim = 64;
  } else if (size == "1.5B") {
    c.hidden_size = 1536, c.intermediate_size = 8960, c.layers = 28;
    c.heads = 12, c.kv_heads = 2, c.head_dim = 128;
  } else if (size == "7B") {
    c.vocab_size = 152064;
    c.hidden_size = 3584, c.intermediate_size = 18944, c.layers = 28;
    c.heads = 28, c.kv_heads = 4, c.head_dim = 128;
  } else {
    return base::fail(base::errc::invalid_argument, "no shape '{}'; known: 0.5B, 1.5B, 7B", size);
  }
  return c;
}

}  // namespace quern::tools
