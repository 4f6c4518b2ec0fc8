// Names and conversions of the element types of weights.
#include "policy/weights/dtype.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace quern::policy {

namespace {

struct dtype_names {
  weight_dtype dtype;
  std::string_view safetensors;
  std::string_view torch;
};
constexpr std::array<dtype_names, 3> all_names{{{weight_dtype::f32, "F32", "float32"},
                                                {weight_dtype::bf16, "BF16", "bfloat16"},
                                                {weight_dtype::f16, "F16", "float16"}}};

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

float read_float(const std::byte* at, weight_dtype dtype) {
  switch (dtype) {
    case weight_dtype::bf16:
      return bf16_to_float(load<std::uint16_t>(at));
    case weight_dtype::f16:
      return f16_to_float(load<std::uint16_t>(at));
    case weight_dtype::f32:
      break;
  }
  return load<float>(at);
}

void write_float(std::byte* at, weight_dtype dtype, float value) {
  if (dtype == weight_dtype::f32) {
    std::memcpy(at, &value, sizeof value);
    return;
  }
  const std::uint16_t bits =
      dtype == weight_dtype::bf16 ? float_to_bf16(value) : float_to_f16(value);
  std::memcpy(at, &bits, sizeof bits);
}

}  // namespace

std::string_view safetensors_name(weight_dtype dtype) {
  return all_names[static_cast<std::size_t>(dtype)].safetensors;
}

std::string_view torch_name(weight_dtype dtype) {
  return all_names[static_cast<std::size_t>(dtype)].torch;
}

std::optional<weight_dtype> dtype_from_safetensors(std::string_view name) {
  for (const auto& entry : all_names)
    if (entry.safetensors == name) return entry.dtype;
  return std::nullopt;
}

std::optional<weight_dtype> dtype_from_torch(std::string_view name) {
  for (const auto& entry : all_names)
    if (entry.torch == name) return entry.dtype;
  return std::nullopt;
}

float f16_to_float(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16U;
  const std::uint32_t exponent = (bits >> 10U) & 0x1FU;
  const std::uint32_t mantissa = bits & 0x3FFU;
  if (exponent == 0) {  // zero and subnormals: mantissa * 2^-24 is exact
    const float value = std::ldexp(static_cast<float>(mantissa), -24);
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
  }
  const std::uint32_t wide = exponent == 31 ? 255U : exponent + 112U;
  return std::bit_cast<float>(sign | (wide << 23U) | (mantissa << 13U));
}

std::uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16U) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U);
}

std::uint16_t float_to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16U) & 0x8000U);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7E00U;
  if (magnitude >= 65520.0F) return sign | 0x7C00U;
  if (magnitude < 0x1p-14F) {  // subnormal: a multiple of 2^-24; rint rounds ties to even
    const float steps = std::rint(std::ldexp(magnitude, 24));
    return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(steps));
  }
  const std::uint32_t absolute = bits & 0x7FFFFFFFU;
  const std::uint32_t rounded = absolute + 0xFFFU + ((absolute >> 13U) & 1U);
  return static_cast<std::uint16_t>(sign | ((rounded - (112U << 23U)) >> 13U));
}

base::status convert(std::span<const std::byte> source, weight_dtype from,
                     std::span<std::byte> target, weight_dtype to) {
  const std::size_t count = source.size() / size_of(from);
  if (source.size() % size_of(from) != 0 || target.size() != count * size_of(to))
    return base::fail(base::errc::invalid_argument,
                      "cannot convert {} bytes of {} into {} bytes of {}", source.size(),
                      torch_name(from), target.size(), torch_name(to));
  if (from == to) {
    std::copy(source.begin(), source.end(), target.begin());
    return {};
  }
  for (std::size_t i = 0; i < count; ++i)
    write_float(target.data() + i * size_of(to), to,
                read_float(source.data() + i * size_of(from), from));
  return {};
}

}  // namespace quern::policy
