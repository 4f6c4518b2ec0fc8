#include "base/hash.hpp"

#include <new>

#include <xxhash.h>

namespace quern::base {
namespace {

hash128 from_xxh(XXH128_hash_t value) {
  return {value.high64, value.low64};
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

hash128 xxh128(std::span<const std::byte> bytes) {
  return from_xxh(XXH3_128bits(bytes.data(), bytes.size()));
}

hash128 xxh128(std::string_view text) {
  return from_xxh(XXH3_128bits(text.data(), text.size()));
}

std::string to_hex(const hash128& hash) {
  return fmt::format("{:016x}{:016x}", hash.high, hash.low);
}

expected<hash128> parse_hash(std::string_view text) {
  if (text.size() != 32) {
    return fail(errc::invalid_argument,
                "'{}' is not a hash: 32 hexadecimal digits are needed, got {}", text.substr(0, 64),
                text.size());
  }
  hash128 result;
  for (std::size_t i = 0; i < 32; ++i) {
    const int digit = hex_digit(text[i]);
    if (digit < 0) {
      return fail(errc::invalid_argument, "'{}' is not a hash: '{}' is no hexadecimal digit", text,
                  text[i]);
    }
    std::uint64_t& word = i < 16 ? result.high : result.low;
    word = (word << 4) | static_cast<std::uint64_t>(digit);
  }
  return result;
}

struct hasher::state {
  XXH3_state_t* xxh = XXH3_createState();
  state() {
    if (xxh == nullptr) throw std::bad_alloc();
    XXH3_128bits_reset(xxh);
  }
  state(const state&) = delete;
  state& operator=(const state&) = delete;
  ~state() { XXH3_freeState(xxh); }
};

hasher::hasher() : state_(std::make_unique<state>()) {}
hasher::~hasher() = default;
hasher::hasher(hasher&&) noexcept = default;
hasher& hasher::operator=(hasher&&) noexcept = default;

hasher& hasher::add(std::span<const std::byte> piece) {
  add(static_cast<std::uint64_t>(piece.size()));
  XXH3_128bits_update(state_->xxh, piece.data(), piece.size());
  return *this;
}

hasher& hasher::add(std::string_view piece) {
  return add(std::as_bytes(std::span(piece)));
}

hasher& hasher::add(std::uint64_t number) {
  unsigned char little_endian[8];
  for (int i = 0; i < 8; ++i)
    little_endian[i] = static_cast<unsigned char>(number >> (8 * i));
  XXH3_128bits_update(state_->xxh, little_endian, sizeof little_endian);
  return *this;
}

hash128 hasher::digest() const {
  return from_xxh(XXH3_128bits_digest(state_->xxh));
}

}  // namespace quern::base
