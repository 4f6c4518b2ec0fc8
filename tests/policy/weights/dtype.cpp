// Conversions of weights: every 16-bit pattern, and the roundings that torch makes.
#include "policy/weights/dtype.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "support/test.hpp"

using namespace quern::policy;

TEST_CASE("every 16-bit pattern survives the way to float and back") {
  int wrong = 0;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float from_f16 = f16_to_float(half);
    const float from_bf16 = bf16_to_float(half);
    if (std::isnan(from_f16) ? !std::isnan(f16_to_float(float_to_f16(from_f16)))
                             : float_to_f16(from_f16) != half)
      ++wrong;
    if (std::isnan(from_bf16) ? !std::isnan(bf16_to_float(float_to_bf16(from_bf16)))
                              : float_to_bf16(from_bf16) != half)
      ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("float16 is what its definition says") {
  CHECK(f16_to_float(0x3C00) == 1.0F);
  CHECK(f16_to_float(0xC000) == -2.0F);
  CHECK(f16_to_float(0x7BFF) == 65504.0F);
  CHECK(f16_to_float(0x0001) == std::ldexp(1.0F, -24));
  CHECK(f16_to_float(0x0400) == std::ldexp(1.0F, -14));
  CHECK(std::isinf(f16_to_float(0x7C00)));
  CHECK(std::signbit(f16_to_float(0x8000)));
}

TEST_CASE("rounding is to nearest, ties to even") {
  const auto between = [](float a, float b) { return (a + b) / 2; };
  for (const std::uint16_t low : {0x3C00, 0x3C01, 0x0001, 0x0002, 0x03FF, 0x0400, 0x7BFE}) {
    const auto high = static_cast<std::uint16_t>(low + 1);
    const float tie = between(f16_to_float(low), f16_to_float(high));
    CHECK(float_to_f16(tie) == (low % 2 == 0 ? low : high));
    CHECK(float_to_f16(std::nextafter(tie, 0.0F)) == low);
    CHECK(float_to_f16(std::nextafter(tie, 1e9F)) == high);
    CHECK(float_to_f16(-tie) == ((low % 2 == 0 ? low : high) | 0x8000));
  }
  for (const std::uint16_t low : {0x3F80, 0x3F81, 0x0001, 0x4049}) {
    const auto high = static_cast<std::uint16_t>(low + 1);
    const float tie = between(bf16_to_float(low), bf16_to_float(high));
    CHECK(float_to_bf16(tie) == (low % 2 == 0 ? low : high));
    CHECK(float_to_bf16(std::nextafter(tie, 0.0F)) == low);
    CHECK(float_to_bf16(std::nextafter(tie, 1e9F)) == high);
  }
  CHECK(float_to_f16(65519.0F) == 0x7BFF);
  CHECK(float_to_f16(65520.0F) == 0x7C00);
  CHECK(float_to_f16(0x1p-25F) == 0);
  CHECK(float_to_bf16(std::numeric_limits<float>::max()) == 0x7F80);
  CHECK(std::isnan(bf16_to_float(float_to_bf16(std::bit_cast<float>(0x7F800001U)))));
}

TEST_CASE("convert checks its sizes") {
  const std::vector<float> values{1.5F, -2.0F, 0.0F};
  const auto bytes = std::as_bytes(std::span(values));
  std::vector<std::uint16_t> half(3);
  REQUIRE(convert(bytes, weight_dtype::f32, std::as_writable_bytes(std::span(half)),
                  weight_dtype::bf16));
  CHECK(half == std::vector<std::uint16_t>{0x3FC0, 0xC000, 0});
  std::vector<float> back(3);
  REQUIRE(convert(std::as_bytes(std::span(half)), weight_dtype::bf16,
                  std::as_writable_bytes(std::span(back)), weight_dtype::f32));
  CHECK(back == values);
  std::vector<std::uint16_t> short_target(2);
  CHECK_FALSE(convert(bytes, weight_dtype::f32, std::as_writable_bytes(std::span(short_target)),
                      weight_dtype::bf16));
}
