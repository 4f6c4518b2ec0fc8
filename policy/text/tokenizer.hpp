// Byte-level BPE as `tokenizers` computes it, read from a Hugging Face tokenizer.json: added
// tokens, NFC, the split patterns of Qwen2 and Llama-3, merges by rank. Text and tokens of any
// policy pass here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace quern::policy {

using token_id = std::int32_t;

struct tokenizer_tables;

struct encode_options {
  /// Are special tokens written in the text ("<|im_end|>") recognised? Never for text from outside
  /// (compiler messages, generated code): with false such text is encoded as ordinary characters.
  bool allow_special = false;
  /// Are the tokens added that the post-processor names (Llama-3's <|begin_of_text|>)?
  bool add_special = false;
};

/// Immutable after loading; any number of threads may use one. Copies share the tables. Each thread
/// keeps a bounded cache of recently split words.
class tokenizer {
 public:
  /// Text of a tokenizer.json. Refused by name: models other than BPE without unknown token and
  /// byte fallback, other normalisers, pre-tokenisers, split patterns, post-processors and
  /// decoders, a vocabulary without all 256 bytes, merges of unknown tokens.
  static base::expected<tokenizer> parse(std::string_view json_text);
  /// DIR/tokenizer.json.
  static base::expected<tokenizer> load(const std::filesystem::path& dir);

  /// Any bytes are accepted. Valid UTF-8 gives the ids that `tokenizers` gives; a byte that is not
  /// part of valid UTF-8 counts as a symbol, and text that contains one is not normalised.
  /// (Known difference: NFC follows Unicode 15 here and an older table in `tokenizers`; runs of
  /// combining marks that are newer than that table may be ordered differently.)
  std::vector<token_id> encode(std::string_view text, const encode_options& options = {}) const;

  /// The bytes of the tokens in a row. With `skip_special` special tokens are left out. Ids outside
  /// the vocabulary (padding rows of the embedding) give nothing. Not necessarily valid UTF-8: see
  /// utf8.hpp.
  std::string decode(std::span<const token_id> ids, bool skip_special = true) const;
  /// The bytes of one token; empty outside the vocabulary.
  std::string_view token_bytes(token_id id) const;

  /// One more than the largest id. The model's embedding may have more rows.
  token_id vocab_size() const;
  /// Of a special or added token by its content, or of a base token by its bytes.
  std::optional<token_id> find(std::string_view content) const;
  bool is_special(token_id id) const;

 private:
  explicit tokenizer(std::shared_ptr<const tokenizer_tables> tables) : tables_(std::move(tables)) {}
  std::shared_ptr<const tokenizer_tables> tables_;
};

}  // namespace quern::policy
