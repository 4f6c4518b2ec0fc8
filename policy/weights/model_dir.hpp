// Weights between a Hugging Face model directory and an arena: names, shapes and completeness are
// checked, dtypes are converted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>

#include "base/status.hpp"
#include "policy/weights/catalogue.hpp"
#include "policy/weights/safetensors.hpp"

namespace quern::policy {

/// Whether `load_weights` would take the file: every parameter there in its shape, nothing else.
/// Reads headers, not values.
base::status check_weights(const safetensors_reader& file, const catalogue& catalogue);

/// Fills `arena` (catalogue.bytes() long); padding becomes zero. Refused, with names: a parameter
/// that is missing, a wrong shape, a tensor that the model does not have. Two old habits are
/// accepted: `rotary_emb.inv_freq` buffers are skipped, and a `lm_head.weight` beside tied
/// embeddings is skipped if its bits equal the embedding's.
base::status load_weights(const safetensors_reader& file, const catalogue& catalogue,
                          std::span<std::byte> arena);

/// One parameter alone: the part of the file's tensor that `p` holds, dense, as `dtype`, into
/// `values` (p.count() of them). The file is one that `check_weights` took.
base::status load_parameter(const safetensors_reader& file, const parameter& p, weight_dtype dtype,
                            std::span<std::byte> values);

inline constexpr std::uint64_t default_shard_bytes = 5'000'000'000;

/// Writes the weights of a whole (not tensor-parallel) arena into DIR as model.safetensors or
/// shards, converted to `dtype`, in the order of the catalogue, with the metadata {"format": "pt"}
/// that transformers asks for and whatever `metadata` adds.
base::status save_weights(const std::filesystem::path& dir, const catalogue& catalogue,
                          std::span<const std::byte> arena, weight_dtype dtype,
                          std::map<std::string, std::string> metadata = {},
                          std::uint64_t max_shard_bytes = default_shard_bytes);

}  // namespace quern::policy
