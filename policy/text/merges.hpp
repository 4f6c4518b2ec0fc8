// The heart of BPE: which pairs of tokens become one, and applying that to one piece of text.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace quern::policy {

struct merge {
  std::int32_t rank = 0;    ///< lower ranks are applied first
  std::int32_t result = 0;  ///< the token that the pair becomes
};

class merge_table {
 public:
  /// A pair that is there already takes the later rank and result, as in `tokenizers`.
  void set(std::int32_t left, std::int32_t right, merge value) { table_[key(left, right)] = value; }
  /// Null where the pair does not merge.
  const merge* find(std::int32_t left, std::int32_t right) const {
    const auto found = table_.find(key(left, right));
    return found == table_.end() ? nullptr : &found->second;
  }
  std::size_t size() const { return table_.size(); }

  /// Merges neighbours of `tokens` in place until no pair is in the table: always the pair of
  /// lowest rank, of equals the leftmost. n log n in their number.
  void apply(std::vector<std::int32_t>& tokens) const;

 private:
  static std::uint64_t key(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32U |
           static_cast<std::uint32_t>(right);
  }
  std::unordered_map<std::uint64_t, merge> table_;
};

}  // namespace quern::policy
