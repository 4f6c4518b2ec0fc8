// How far a result may lie from the reference's.
#include "env/lanes/pytorch/calibration.hpp"

#include <cmath>
#include <cstring>
#include <limits>

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
  return scale_of(std::span(&layout, 1), w, x);
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
