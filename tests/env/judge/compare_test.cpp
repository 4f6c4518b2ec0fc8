// Is a tensor right: tolerance, NaN, infinities, integers, first wrong element; by cases and
// against a plain oracle.
#include "env/judge/compare.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/random.hpp"
#include "env/tensor_task/float_bits.hpp"
#include "support/test.hpp"

using namespace quern::env;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
const float nan_value = std::nanf("");

tensor_layout f32(std::vector<std::int64_t> shape) {
  tensor_layout t;
  t.name = std::string(1, 'y');
  t.shape = std::move(shape);
  for (auto n : t.shape)
    t.elements *= n;
  t.bytes = t.elements * 4;
  return t;
}

auto bytes(const std::vector<float>& v) {
  return std::as_bytes(std::span(v));
}

bool right(float got, float want, tolerance limit = {1e-3, 1e-2}) {
  return !compare_tensor(f32({1}), limit, bytes({got}), bytes({want})).has_value();
}

/// The definition, with nothing clever in it.
bool definition(float got, float want, const tolerance& limit) {
  if (std::isnan(got) || std::isnan(want)) return std::isnan(got) && std::isnan(want);
  if (std::isinf(got) || std::isinf(want)) return got == want;
  return std::abs(got - want) <=
         static_cast<float>(limit.atol) + static_cast<float>(limit.rtol) * std::abs(want);
}

}  // namespace

TEST_CASE("tolerance is absolute plus relative to the wanted value") {
  CHECK(right(1.0F, 1.0F));
  CHECK(right(100.9F, 100.0F));
  CHECK_FALSE(right(101.2F, 100.0F));
  CHECK(right(0.0009F, 0.0F));
  CHECK_FALSE(right(0.0011F, 0.0F));
  CHECK(right(-0.0F, 0.0F, {0, 0}));
}

TEST_CASE("non-finite values are no wildcards") {
  CHECK(right(nan_value, nan_value));
  CHECK_FALSE(right(nan_value, 1));
  CHECK_FALSE(right(1, nan_value));
  CHECK(right(inf, inf));
  CHECK_FALSE(right(-inf, inf));
  CHECK_FALSE(right(inf, 1));
  CHECK_FALSE(right(3e38F, inf));
  CHECK_FALSE(right(nan_value, inf));
}

TEST_CASE("the first wrong element in memory order, with its index and exact values") {
  std::vector<float> want(3 * 5000, 1.0F), got = want;
  got[2 * 5000 + 7] = 1.5F;
  got[2 * 5000 + 9] = 9;
  const auto d = compare_tensor(f32({3, 5000}), {0, 0}, bytes(got), bytes(want));
  REQUIRE(d.has_value());
  CHECK(d->output == "y");
  CHECK(d->index == std::vector<std::int64_t>{2, 7});
  CHECK(d->got == "0x1.8p+0");
  CHECK(d->want == "0x1p+0");
  CHECK(describe(*d) == "y[2,7] is 1.5 (0x1.8p+0), should be 1 (0x1p+0)");
  CHECK(describe({"y", {0}, "nan", "nan"}).find("written") == std::string::npos);
  CHECK(describe({"y", {0}, "nan", "0x1p+0"}).find("is it written at all?") != std::string::npos);
}

TEST_CASE("integers must be equal; doubles are compared as doubles") {
  tensor_layout t = f32({2});
  t.type = dtype::i32;
  const std::vector<std::int32_t> a{1, 2}, b{1, 3};
  CHECK_FALSE(compare_tensor(t, {10, 10}, std::as_bytes(std::span(a)), std::as_bytes(std::span(a)))
                  .has_value());
  const auto d =
      compare_tensor(t, {10, 10}, std::as_bytes(std::span(b)), std::as_bytes(std::span(a)));
  REQUIRE(d.has_value());
  CHECK(d->got == "3");
  t.type = dtype::f64;
  t.bytes = 16;
  const std::vector<double> x{1, 1}, y{1, 1 + 1e-12};
  CHECK(compare_tensor(t, {0, 1e-13}, std::as_bytes(std::span(y)), std::as_bytes(std::span(x)))
            .has_value());
  CHECK_FALSE(
      compare_tensor(t, {0, 1e-11}, std::as_bytes(std::span(y)), std::as_bytes(std::span(x)))
          .has_value());
}

TEST_CASE("halves are compared as the numbers they stand for") {
  const auto layout_of = [](dtype type) {
    tensor_layout t = f32({2, 3});
    t.type = type;
    t.bytes = t.elements * 2;
    return t;
  };
  using words = std::vector<std::uint16_t>;
  const auto as_bytes = [](const words& v) { return std::as_bytes(std::span(v)); };
  const auto check_type = [&](dtype type, std::uint16_t (*narrow)(float)) {
    const auto layout = layout_of(type);
    const auto made = [&](std::vector<float> values) {
      words result;
      for (const float v : values)
        result.push_back(narrow(v));
      return result;
    };
    const words want = made({1, -2, 1000, inf, nan_value, 0});
    // One part in a hundred is right by the tolerance, though no byte of it is.
    const words near = made({1.01F, -2.02F, 1008, inf, nan_value, 0.0005F});
    CHECK_FALSE(compare_tensor(layout, {1e-3, 2e-2}, as_bytes(near), as_bytes(want)).has_value());
    const words far = made({1, -2, 1000, inf, 5, 0});
    const auto wrong = compare_tensor(layout, {1e-3, 2e-2}, as_bytes(far), as_bytes(want));
    REQUIRE(wrong.has_value());
    CHECK(wrong->index == std::vector<std::int64_t>{1, 1});
    CHECK(wrong->got == "0x1.4p+2");
    CHECK(wrong->want == "nan");
    words other_nan = want;
    other_nan[4] ^= 1;
    CHECK_FALSE(compare_bits(layout, as_bytes(other_nan), as_bytes(want)).has_value());
    words negative_zero = want;
    negative_zero[5] ^= 0x8000;
    const auto bits = compare_bits(layout, as_bytes(negative_zero), as_bytes(want));
    REQUIRE(bits.has_value());
    CHECK(bits->index == std::vector<std::int64_t>{1, 2});
  };
  SUBCASE("bf16") {
    check_type(dtype::bf16, to_bf16);
  }
  SUBCASE("f16") {
    check_type(dtype::f16, to_f16);
  }
}

TEST_CASE("bits: two runs must agree exactly, but for the payload of a NaN") {
  const auto t = f32({2});
  CHECK(compare_bits(t, bytes({1, 0.0F}), bytes({1, -0.0F})).has_value());
  CHECK_FALSE(compare_bits(t, bytes({1, nan_value}), bytes({1, -nan_value})).has_value());
  CHECK(compare_bits(t, bytes({1, std::nextafter(2.0F, 3.0F)}), bytes({1, 2}))->index ==
        std::vector<std::int64_t>{1});
}

TEST_CASE("thousands of random tensors against the definition") {
  quern::base::random_stream random(11, "compare");
  const float special[] = {0, -0.0F, 1, inf, -inf, nan_value, 1e-40F, 3e38F, -3e38F};
  for (int trial = 0; trial < 3000; ++trial) {
    const std::size_t n = 1 + random.below(trial % 50 == 0 ? 9000 : 40);
    std::vector<float> want(n), got(n);
    const tolerance limit{random.uniform() * 1e-3, random.uniform() * 1e-3};
    for (std::size_t i = 0; i < n; ++i) {
      want[i] = random.chance(0.1) ? special[random.below(9)] : static_cast<float>(random.normal());
      got[i] = random.chance(0.001)
                   ? special[random.below(9)]
                   : want[i] * static_cast<float>(1 + 0.9e-3 * limit.rtol * random.normal());
    }
    std::size_t first = n;
    for (std::size_t i = n; i-- > 0;)
      if (!definition(got[i], want[i], limit)) first = i;
    const auto d =
        compare_tensor(f32({static_cast<std::int64_t>(n)}), limit, bytes(got), bytes(want));
    CHECK(d.has_value() == (first < n));
    if (d && first < n) CHECK(d->index[0] == static_cast<std::int64_t>(first));
  }
}
