// Trains a byte-level BPE vocabulary from text and writes it as a tokenizer.json that `tokenizers`
// loads and encodes identically with. Meant for small vocabularies (the demo policy has some 400
// entries).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "policy/text/split.hpp"

namespace quern::policy {

struct bpe_training {
  std::int64_t vocab_size = 512;  ///< special tokens included; at least 256 + their number
  split_pattern pattern = split_pattern::qwen2;
  std::vector<std::string> special_tokens;  ///< get the last ids, in this order
  /// One of them that the post-processor puts before each text (encode_options::add_special).
  std::optional<std::string> begin_token;
  std::int64_t min_count = 2;         ///< a pair that occurs less often is not merged
  std::int64_t max_token_bytes = 16;  ///< no merge makes a longer token
};

/// The text of the tokenizer.json. Ids: 256 bytes, merges in order, special tokens. Nothing is
/// normalised, so decoding gives the very bytes back. Deterministic: the most frequent pair is
/// merged first, of equals the one with the smaller (left, right) ids; the order of `texts` does
/// not matter. Fewer tokens than asked for where no pair is frequent enough; then special tokens
/// follow at once.
base::expected<std::string> train_bpe(std::span<const std::string_view> texts,
                                      const bpe_training& options);

}  // namespace quern::policy
