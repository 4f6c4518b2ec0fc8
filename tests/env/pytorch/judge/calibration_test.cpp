// How far a result may lie from the reference's.
#include "env/lanes/pytorch/calibration.hpp"

#include <cmath>
#include <cstring>
#include <limits>

#include "env/core/output_limits.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::env;

namespace {

template <class T>
tensor_bytes bytes_of_values(const std::vector<T>& values) {
  tensor_bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

result_scale scale(const std::vector<float>& want, const std::vector<double>& wide) {
  tensor_layout layout;
  layout.name = "y";
  layout.shape = {static_cast<std::int64_t>(want.size())};
  layout.elements = static_cast<std::int64_t>(want.size());
  layout.bytes = 4 * layout.elements;
  const std::vector<tensor_bytes> w{bytes_of_values(want)};
  std::vector<tensor_bytes> x;
  if (!wide.empty()) x.push_back(bytes_of_values(wide));
  return scales_of(std::span(&layout, 1), w, x).front();
}

constexpr tolerance relative{1e-4, 1e-4};

}  // namespace

TEST_CASE("a limit goes with the scale of the results") {
  const auto large = calibrated(relative, scale({300, -400}, {300, -400}));
  REQUIRE(large);
  CHECK(large->atol == doctest::Approx(1e-4 * std::sqrt(125000.0)));
  CHECK(large->rtol == relative.rtol);
  // Results below KernelBench's own tolerance: zeros would pass it.
  const auto small = calibrated(relative, scale({4e-6F, 4e-6F}, {4e-6, 4e-6}));
  REQUIRE(small);
  CHECK(small->atol < 4e-9);
}

TEST_CASE("outputs of few elements are calibrated on several contents") {
  CHECK(contents_for_limit(1) == 16);
  CHECK(contents_for_limit(640) == 16);
  CHECK(contents_for_limit(10'000) == 7);
  CHECK(contents_for_limit(65'535) == 2);
  CHECK(contents_for_limit(65'536) == 1);
  CHECK(contents_for_limit(std::numeric_limits<std::int64_t>::max() - 65'536) == 1);

  // The first shows nothing: what it has is zero. Its limit alone would refuse the second's error.
  const result_scale zeros = scale({0, 0}, {0, 0}), sums = scale({0, 3e-3F}, {0, 3e-3 + 5e-7});
  REQUIRE(sums.worst_error > 4e-7);
  const auto alone = calibrated(relative, scale({0, 1e-5F}, {0, 1e-5F}));
  REQUIRE(alone);
  CHECK(alone->atol < sums.worst_error);
  const result_scale all = pooled(std::vector{zeros, sums, zeros, zeros});
  CHECK(all.worst_error == sums.worst_error);
  CHECK(all.rms == doctest::Approx(sums.rms / 2));
  CHECK(calibrated(relative, all)->atol > 4 * 4e-7);
  // A content on which the reference is no judge does not count, but as the first one.
  const float infinity = std::numeric_limits<float>::infinity();
  const result_scale wild = scale({1, infinity}, {1, 1e300});
  const result_scale without = pooled(std::vector{sums, wild});
  CHECK(without.agrees);
  CHECK(without.rms == doctest::Approx(sums.rms));
  CHECK_FALSE(pooled(std::vector{wild, sums}).agrees);
}

TEST_CASE(
    "a limit is never tighter than the reference's own error, and a wild reference has none") {
  const auto rough = calibrated(relative, scale({1, 1.01F}, {1, 1}));
  REQUIRE(rough);
  CHECK(rough->atol == doctest::Approx(0.04).epsilon(1e-4));
  CHECK_FALSE(calibrated(relative, scale({1, 1.1F}, {1, 1})));
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK_FALSE(calibrated(relative, scale({1, infinity}, {1, 1e300})));
  CHECK(calibrated(relative, scale({1, infinity}, {1, std::numeric_limits<double>::infinity()})));
  const float nan = std::nanf("");
  const auto with_nan = scale({1, nan}, {1, std::nan("")});
  CHECK(with_nan.agrees);
  CHECK_FALSE(with_nan.finite);
  CHECK_FALSE(calibrated(relative, scale({1, nan}, {1, 1})));
}

TEST_CASE("without results in f64 the limit is that of the scale") {
  const auto limit = calibrated(relative, scale({2, 2}, {}));
  REQUIRE(limit);
  CHECK(limit->atol == doctest::Approx(2e-4));
}

TEST_CASE("each output has the limit of its own scale") {
  std::vector<tensor_layout> layouts(3);
  for (auto& one : layouts) {
    one.shape = {2};
    one.elements = 2;
    one.bytes = 8;
  }
  layouts[2].type = dtype::i64;
  layouts[2].bytes = 16;
  const std::vector<std::int64_t> whole{7, 9};
  const std::vector<tensor_bytes> want{bytes_of_values<float>({10000, 10001}),
                                       bytes_of_values<float>({0.01F, 0.01F}),
                                       bytes_of_values(whole)};
  const std::vector<tensor_bytes> wide{
      bytes_of_values<double>({10000, 10002}),
      bytes_of_values<double>({static_cast<double>(0.01F), static_cast<double>(0.01F)}),
      bytes_of_values(whole)};
  const auto scales = scales_of(layouts, want, wide);
  REQUIRE(scales.size() == 3);
  // The error of the large output is no licence for the small one, of which zeros would be right.
  CHECK(calibrated(relative, scales[0])->atol == doctest::Approx(4));
  CHECK(calibrated(relative, scales[1])->atol == doctest::Approx(1e-6));
  CHECK(calibrated(relative, scales[2])->atol == 0);
  const output_limits limits({*calibrated(relative, scales[0]), *calibrated(relative, scales[1])});
  CHECK(limits.at(1).atol == doctest::Approx(1e-6));
  CHECK(limits.widened(2).at(0).atol == doctest::Approx(8));
  CHECK(output_limits(relative).at(5).atol == relative.atol);
}
