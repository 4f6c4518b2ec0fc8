// Statistics against values worked out by hand.
#include "env/measure/stats.hpp"

#include <array>
#include <cmath>

#include "support/test.hpp"

using namespace quern::env;

TEST_CASE("median, mean and quantiles") {
  CHECK(median_of(std::array{3.0, 1.0, 2.0}) == 2.0);
  CHECK(median_of(std::array{4.0, 1.0, 2.0, 3.0}) == 2.5);
  CHECK(median_of(std::span<const double>{}) == 0.0);
  CHECK(mean_of(std::array{1.0, 2.0, 6.0}) == 3.0);
  CHECK(quantile_of(std::array{10.0, 20.0, 30.0, 40.0, 50.0}, 0.25) == 20.0);
  CHECK(quantile_of(std::array{10.0, 20.0}, 0.99) == doctest::Approx(19.9));
}

TEST_CASE("a trimmed mean ignores a fifth at each end") {
  CHECK(trimmed_mean_of(std::array{-1e9, 1.0, 2.0, 3.0, 1e9}) == 2.0);
  CHECK(trimmed_mean_of(std::array{1.0, 2.0, 6.0}) == 3.0);
  CHECK(trimmed_mean_of(std::span<const double>{}) == 0.0);
}

TEST_CASE("one wild value does not move the winsorised deviation") {
  const std::array calm{1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0};
  auto wild = calm;
  wild[6] = 1e9;
  CHECK(winsorised_deviation(wild) == winsorised_deviation(calm));
  // 2 2 3 4 5 6 6 around 4: (4 + 4 + 1 + 0 + 1 + 4 + 4) / 6
  CHECK(winsorised_deviation(calm) == doctest::Approx(std::sqrt(3.0)));
  CHECK(trimmed_standard_error(calm) ==
        doctest::Approx(std::sqrt(3.0) / ((1 - 2.0 / 7) * std::sqrt(7.0))));
}

TEST_CASE("small samples: plain deviation, and no claim from one value") {
  CHECK(winsorised_deviation(std::array{1.0, 3.0}) == doctest::Approx(std::sqrt(2.0)));
  CHECK(std::isinf(trimmed_standard_error(std::array{1.0})));
}

TEST_CASE("Student's quantiles from a table of them") {
  CHECK(student_95(1) == doctest::Approx(12.706));
  CHECK(student_95(6) == doctest::Approx(2.447));
  CHECK(student_95(11) == doctest::Approx(2.201).epsilon(0.001));
  CHECK(student_95(30) == doctest::Approx(2.042).epsilon(0.001));
  CHECK(student_95(1000) == doctest::Approx(1.962).epsilon(0.001));
  CHECK(std::isinf(student_95(0)));
}

TEST_CASE("consecutive ranges cover everything once, in order") {
  for (std::size_t count = 0; count < 60; ++count) {
    std::size_t at = 0, longest = 0, shortest = count + 1;
    for (const auto& [begin, end] : consecutive_ranges(count, 7)) {
      CHECK(begin == at);
      CHECK(end >= begin);
      longest = std::max(longest, end - begin);
      shortest = std::min(shortest, end - begin);
      at = end;
    }
    CHECK(at == count);
    CHECK(longest - shortest <= 1);
  }
}
