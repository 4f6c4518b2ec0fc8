// What a loaded tokenizer knows; made by tokenizer_json.cpp, used by tokenizer.cpp only.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.hpp"
#include "policy/text/merges.hpp"
#include "policy/text/split.hpp"
#include "policy/text/tokenizer.hpp"

namespace quern::policy {

/// A token that is cut out of the text before anything else happens to it.
struct added_token {
  std::string content;
  token_id id = 0;
  bool special = false;
};

/// Added tokens by their first byte, longest first: leftmost-longest search without an automaton.
class added_token_set {
 public:
  void insert(added_token token);
  /// The longest token that begins at text[at], or null.
  const added_token* match(std::string_view text, std::size_t at) const;
  bool empty() const { return count_ == 0; }

 private:
  std::array<std::vector<added_token>, 256> by_first_byte_;
  std::size_t count_ = 0;
};

struct text_hash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};

struct tokenizer_tables {
  std::uint64_t instance = 0;  ///< tells the caches of different tokenizers apart
  split_pattern pattern = split_pattern::qwen2;
  bool nfc = false;
  bool ignore_merges = false;
  std::vector<std::string> bytes;  ///< by id; empty where no token has the id
  std::vector<bool> special;       ///< by id
  std::unordered_map<std::string, token_id, text_hash, std::equal_to<>> base_ids;  ///< by bytes
  std::unordered_map<std::string, token_id, text_hash, std::equal_to<>> added_ids;
  std::array<token_id, 256> byte_ids{};
  merge_table merges;
  added_token_set added_raw;         ///< matched in the text as it is
  added_token_set added_normalised;  ///< matched in the normalised text
  std::vector<token_id> prefix;      ///< of the post-processor
  std::vector<token_id> suffix;
};

base::expected<tokenizer_tables> parse_tokenizer_tables(std::string_view json_text);

}  // namespace quern::policy
