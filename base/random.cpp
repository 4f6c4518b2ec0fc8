#include "base/random.hpp"

#include <cmath>
#include <numbers>

#include "base/hash.hpp"

namespace quern::base {

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key) {
  constexpr std::uint64_t multiplier0 = 0xD2511F53;
  constexpr std::uint64_t multiplier1 = 0xCD9E8D57;
  constexpr std::uint32_t weyl0 = 0x9E3779B9;
  constexpr std::uint32_t weyl1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = multiplier0 * counter[0];
    const std::uint64_t product1 = multiplier1 * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(product0)};
    key[0] += weyl0;
    key[1] += weyl1;
  }
  return counter;
}

random_address random_address::of(std::uint64_t seed, std::string_view purpose,
                                  std::initializer_list<std::uint64_t> ids) {
  hasher h;
  h.add(seed).add(purpose);
  for (std::uint64_t id : ids)
    h.add(id);
  const hash128 digest = h.digest();
  return {digest.high, digest.low};
}

std::array<std::uint32_t, 4> random_block(const random_address& where, std::uint64_t position) {
  return philox4x32(
      {static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(position >> 32),
       static_cast<std::uint32_t>(where.stream), static_cast<std::uint32_t>(where.stream >> 32)},
      {static_cast<std::uint32_t>(where.key), static_cast<std::uint32_t>(where.key >> 32)});
}

std::uint32_t random_stream::next_u32() {
  if (used_ == 4) {
    block_ = random_block(where_, position_++);
    used_ = 0;
  }
  return block_[static_cast<std::size_t>(used_++)];
}

std::uint64_t random_stream::next_u64() {
  const std::uint64_t high = next_u32();
  return (high << 32) | next_u32();
}

std::uint64_t random_stream::below(std::uint64_t bound) {
  // Lemire's multiply-and-reject.
  const std::uint64_t threshold = (0 - bound) % bound;
  while (true) {
    const __uint128_t product = static_cast<__uint128_t>(next_u64()) * bound;
    if (static_cast<std::uint64_t>(product) >= threshold) {
      return static_cast<std::uint64_t>(product >> 64);
    }
  }
}

std::int64_t random_stream::between(std::int64_t low, std::int64_t high) {
  const std::uint64_t width =
      static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low) + 1;
  const std::uint64_t offset = width == 0 ? next_u64() : below(width);
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + offset);
}

double random_stream::uniform() {
  return (static_cast<double>(next_u64() >> 12) + 0.5) * 0x1p-52;
}

double random_stream::normal() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_normal_;
  }
  const double radius = std::sqrt(-2.0 * std::log(uniform()));
  const double angle = 2.0 * std::numbers::pi * uniform();
  spare_normal_ = radius * std::sin(angle);
  has_spare_ = true;
  return radius * std::cos(angle);
}

}  // namespace quern::base
