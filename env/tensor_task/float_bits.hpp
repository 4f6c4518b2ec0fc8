// The 16-bit floating formats as bit patterns, for filling and reading tensors on the host.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace quern::env {

/// Nearest bfloat16, ties to even. NaN stays NaN.
inline std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

inline float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

inline float from_f16(std::uint16_t bits) {
  const std::uint32_t exponent = (bits >> 10) & 0x1F;
  const std::uint32_t mantissa = bits & 0x3FF;
  const float sign = (bits & 0x8000) != 0 ? -1.0F : 1.0F;
  if (exponent == 0x1F) return mantissa != 0 ? std::nanf("") : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
  return sign * std::ldexp(static_cast<float>(mantissa | 0x400), static_cast<int>(exponent) - 25);
}

/// Nearest IEEE half, ties to even; beyond the largest finite value infinity. NaN stays NaN.
inline std::uint16_t to_f16(float value) {
  const auto sign =
      static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(value) >> 16) & 0x8000);
  const float size = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7E00;
  if (size >= 65520.0F) return sign | 0x7C00;
  if (size == 0) return sign;
  int exponent = 0;
  std::frexp(size, &exponent);
  // Units of the last place: 2^-24 for subnormals, else 11 significant bits. nearbyint rounds ties
  // to even.
  const int scale = std::max(exponent - 11, -24);
  const auto units = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(size, -scale)));
  // Subnormals and the smallest normals share one formula: the exponent field counts binades above
  // the first.
  return static_cast<std::uint16_t>(sign + units + (static_cast<std::uint32_t>(scale + 24) << 10));
}

}  // namespace quern::env
