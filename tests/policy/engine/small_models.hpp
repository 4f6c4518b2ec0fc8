// Small models of each architecture for tests, and sequences to feed them.
#pragma once

#include <cstdint>
#include <vector>

#include "policy/text/model_config.hpp"

namespace quern::test {

/// Two layers, 3 query heads a key/value head, head_dim that does not divide the width; untied
/// unless said.
inline policy::model_config small_config(policy::architecture arch, bool tied = false) {
  policy::model_config c;
  c.arch = arch;
  c.vocab_size = 61;
  c.hidden_size = 20;
  c.intermediate_size = 28;
  c.layers = 2;
  c.heads = 6;
  c.kv_heads = 2;
  c.head_dim = 8;
  c.max_positions = 96;
  c.tied_embeddings = tied;
  c.initializer_range = 0.3;
  if (arch == policy::architecture::llama) c.rope_scaling = policy::llama3_rope{8.0, 1.0, 4.0, 32};
  return c;
}

/// Deterministic tokens inside the vocabulary.
inline std::vector<std::int32_t> some_tokens(std::size_t count, std::uint32_t seed,
                                             std::int32_t vocabulary = 61) {
  std::vector<std::int32_t> result;
  for (std::size_t i = 0; i < count; ++i) {
    seed = seed * 1664525U + 1013904223U;
    result.push_back(
        static_cast<std::int32_t>((seed >> 8) % static_cast<std::uint32_t>(vocabulary)));
  }
  return result;
}

}  // namespace quern::test
