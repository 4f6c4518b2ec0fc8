// 128-bit content hashes (XXH3): identity of tasks, sources, weights and blobs. Not a defence
// against somebody who makes collisions on purpose; signatures and keys are elsewhere.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace quern::base {

struct hash128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  auto operator<=>(const hash128&) const = default;
};

hash128 xxh128(std::span<const std::byte> bytes);
hash128 xxh128(std::string_view text);

/// 32 lower-case hexadecimal digits, high word first.
std::string to_hex(const hash128& hash);

/// Exactly 32 hexadecimal digits; anything else is invalid_argument.
expected<hash128> parse_hash(std::string_view text);

/// Hash of a sequence of pieces. Each piece's length is hashed too, so ("ab","c") differs from
/// ("a","bc"). Not thread-safe.
class hasher {
 public:
  hasher();
  ~hasher();
  hasher(hasher&&) noexcept;
  hasher& operator=(hasher&&) noexcept;

  hasher& add(std::span<const std::byte> piece);
  hasher& add(std::string_view piece);
  hasher& add(std::uint64_t number);
  [[nodiscard]] hash128 digest() const;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace quern::base

template <>
struct std::hash<quern::base::hash128> {
  std::size_t operator()(const quern::base::hash128& value) const noexcept {
    return static_cast<std::size_t>(value.low ^ (value.high * 0x9E3779B97F4A7C15ULL));
  }
};
