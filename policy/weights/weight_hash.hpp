// Hashes of weights that add up: the hash of a tensor is a sum over its elements, so the hashes of
// disjoint shards, computed anywhere in any order, add up to that of the whole, and the sum over
// all tensors is the hash of the model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/hash.hpp"
#include "policy/weights/catalogue.hpp"

namespace quern::policy {

/// Lane by lane, modulo 2^64: associative, commutative, with {0, 0} as zero.
constexpr base::hash128 add(base::hash128 a, base::hash128 b) {
  return {a.high + b.high, a.low + b.low};
}

/// The two 64-bit lanes of one element: `index` is its row-major position in the whole logical
/// tensor, `bits` its stored bits (16 or 32, zero-extended), `seed` that of its tensor. With mix(x)
/// = the finaliser of splitmix64:
///   k = mix(seed.low + (index + 1) * 0x9e3779b97f4a7c15)
///   low = mix(k ^ bits),  high = mix((k + seed.high) ^ (bits * 0xd6e8feb86659fd93 + 1))
/// Written so that a GPU can add up lanes with atomics and get the same bits.
constexpr base::hash128 element_hash(base::hash128 seed, std::uint64_t index, std::uint32_t bits) {
  constexpr auto mix = [](std::uint64_t x) {
    x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27U)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31U);
  };
  const std::uint64_t k = mix(seed.low + (index + 1) * 0x9e3779b97f4a7c15ULL);
  const std::uint64_t wide = bits;
  return {mix((k + seed.high) ^ (wide * 0xd6e8feb86659fd93ULL + 1)), mix(k ^ wide)};
}

/// xxh128 of name, dtype and whole shape.
base::hash128 tensor_seed(const parameter& parameter, weight_dtype dtype);

/// Of the part of one parameter that `arena` (catalogue.bytes() long) holds.
base::hash128 tensor_hash(const catalogue& catalogue, const parameter& parameter,
                          std::span<const std::byte> arena);

/// One per parameter, in the order of the catalogue.
std::vector<base::hash128> tensor_hashes(const catalogue& catalogue,
                                         std::span<const std::byte> arena);

/// Their sum: what a version of the policy is known by. Padding does not count, so equal weights in
/// different layouts have equal hashes (of one dtype).
base::hash128 weights_hash(const catalogue& catalogue, std::span<const std::byte> arena);

}  // namespace quern::policy
