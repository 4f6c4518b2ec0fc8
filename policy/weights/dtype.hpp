// The element types that weights are stored in: float32, bfloat16 and float16, with their names in
// safetensors headers ("BF16") and in Hugging Face configurations ("bfloat16"), and conversions.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/status.hpp"

namespace quern::policy {

enum class weight_dtype : std::uint8_t { f32, bf16, f16 };

/// Bytes of one element: 4, 2, 2.
constexpr std::size_t size_of(weight_dtype dtype) {
  return dtype == weight_dtype::f32 ? 4 : 2;
}

/// "F32", "BF16", "F16".
std::string_view safetensors_name(weight_dtype dtype);
/// "float32", "bfloat16", "float16".
std::string_view torch_name(weight_dtype dtype);

/// Nothing for any other name.
std::optional<weight_dtype> dtype_from_safetensors(std::string_view name);
std::optional<weight_dtype> dtype_from_torch(std::string_view name);

/// Exact: every bfloat16 and float16 value is a float. NaN stays NaN.
constexpr float bf16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}
float f16_to_float(std::uint16_t bits);

/// Round to nearest, ties to even, as torch does. NaN stays NaN; too large for f16 is infinity.
std::uint16_t float_to_bf16(float value);
std::uint16_t float_to_f16(float value);

/// Converts `source` (elements of `from`) into `target` (elements of `to`); both hold the same
/// number of elements and do not overlap, which is checked. Equal types are a plain copy.
base::status convert(std::span<const std::byte> source, weight_dtype from,
                     std::span<std::byte> target, weight_dtype to);

}  // namespace quern::policy
