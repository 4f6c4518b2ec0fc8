// The estimate on thousands of synthetic measurements: is the truth inside, and what is called
// noisy.
#include "env/measure/estimate.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "env/measure/stats.hpp"
#include "env/measure/synthetic.hpp"
#include "support/test.hpp"

using namespace quern::env;
using quern::test::machine;
using quern::test::measure;

namespace {

constexpr int trials = 2000;

struct summary {
  double covered = 0, noisy = 0, p99_error = 0;
};

std::vector<process_pairs> one(process_pairs pairs) {
  return {std::move(pairs)};
}

summary run(const machine& m, int processes = 1, const estimate_limits& limits = {}) {
  summary s;
  std::vector<double> errors;
  const double truth = std::log(m.speedup);
  for (int t = 0; t < trials; ++t) {
    std::vector<process_pairs> runs;
    for (int p = 0; p < processes; ++p)
      runs.push_back(measure(m, static_cast<std::uint64_t>(t), static_cast<std::uint64_t>(p)));
    const auto e = estimate_ratio(runs, limits).value();
    s.covered += (e.low <= truth && truth <= e.high) / double(trials);
    s.noisy += e.noisy / double(trials);
    errors.push_back(std::abs(e.mid - truth));
  }
  s.p99_error = quantile_of(errors, 0.99);
  return s;
}

}  // namespace

TEST_CASE(
    "quiet machine: the truth is inside the interval, nothing is noisy, whatever the speed-up") {
  for (double speedup : {0.2, 1.0, 1.37, 30.0}) {
    const auto s = run({.speedup = speedup});
    CHECK(s.covered >= 0.93);
    CHECK(s.noisy == 0);
    CHECK(s.p99_error <= 0.007);
  }
}

TEST_CASE("a drift of both sides by half cancels") {
  const auto s = run({.speedup = 2, .drift = 0.5});
  CHECK(s.p99_error <= 0.007);
  CHECK(s.noisy == 0);
}

TEST_CASE("preempted windows widen the interval but hardly move the median") {
  const auto s = run({.hit_probability = 0.02, .hit_ns_share = 1});
  CHECK(s.covered >= 0.93);
  CHECK(s.p99_error <= 0.02);
  CHECK(s.noisy <= 0.01);
  const auto calm = run({.hit_probability = 0.002, .hit_ns_share = 1});
  CHECK(calm.p99_error <= 0.02);
  CHECK(calm.noisy <= 0.01);
}

TEST_CASE("a candidate that changes its speed in the middle is noisy, at any speed-up") {
  for (double speedup : {1.0, 20.0})
    CHECK(run({.speedup = speedup, .step = 0.3}).noisy >= 0.99);
}

TEST_CASE("a machine that shakes too much is noisy") {
  CHECK(run({.jitter = 0.5}).noisy >= 0.99);
  CHECK(run({.jitter = 0.02}).noisy == 0);
}

TEST_CASE(
    "spread between processes: one pair claims no less than the known spread, several find it") {
  const machine m{.jitter = 0.002, .process_deviation = 0.01};
  // Told the right deviation, one pair of processes covers the truth; told too small a one, it
  // cannot know.
  CHECK(run(m, 1, {.process_deviation = 0.01}).covered >= 0.93);
  CHECK(run(m, 1, {.process_deviation = 0.001}).covered <= 0.6);
  const auto three = run(m, 3, {.process_deviation = 0.001});
  CHECK(three.covered >= 0.75);
  CHECK(three.p99_error < run(m, 1).p99_error);
}

TEST_CASE("seven consecutive buckets in order of time") {
  process_pairs pairs;
  for (int i = 0; i < 21; ++i)
    pairs.push_back({100.0 + i / 3, 100.0});
  const auto e = estimate_ratio(one(pairs)).value();
  for (std::size_t b = 0; b < bucket_count; ++b) {
    CHECK(e.ref_ns[b] == doctest::Approx(100.0 + double(b)));
    CHECK(e.cand_ns[b] == 100.0);
  }
  CHECK(e.mid == doctest::Approx(std::log(1.03)));
  CHECK(e.windows == 21);
}

TEST_CASE("an interval that is wide only because of processes does not ask for more windows") {
  const auto pairs = measure({.jitter = 0.004}, 5);
  CHECK(narrow_enough(one(pairs), {.process_deviation = 0.5}));
  CHECK_FALSE(narrow_enough(one(measure({.jitter = 0.2}, 5))));
  CHECK_FALSE(narrow_enough(one({pairs.begin(), pairs.begin() + 13})));
  CHECK_FALSE(narrow_enough(std::vector<process_pairs>{}));
}

TEST_CASE("of several pairs of processes all count, each with a pair for every bucket") {
  const auto of = [](std::size_t pairs, double jitter, std::uint64_t process) {
    return measure({.jitter = jitter, .pairs = pairs}, 5, process);
  };
  CHECK(narrow_enough(std::vector{of(7, 0.002, 0), of(7, 0.002, 1), of(7, 0.002, 2)}));
  CHECK_FALSE(narrow_enough(std::vector{of(6, 0.002, 0), of(9, 0.002, 1)}));
  CHECK_FALSE(narrow_enough(std::vector{of(20, 0.002, 0), of(20, 0.05, 1), of(20, 0.002, 2)}));
}

TEST_CASE("the half-width by pairs is that of means of two, in which their order cancels") {
  // Logarithms +-d and e: means of two are d/2 more or less than e/2.
  const auto pairs_of = [](std::span<const double> logs) {
    process_pairs pairs;
    for (const double log : logs)
      pairs.push_back({1e5 * std::exp(log), 1e5});
    return pairs;
  };
  std::vector<double> logs;
  for (int i = 0; i < 10; ++i)
    for (const double log : {0.01, -0.01 + 0.001 * i})
      logs.push_back(log);
  // Means 0, 0.0005, ..., 0.0045: their quartiles are 0.00225 apart.
  const double wanted = 1.25 * 1.96 * (0.00225 / 1.349) / std::sqrt(10.0);
  const auto e = estimate_ratio(one(pairs_of(logs)));
  REQUIRE(e);
  CHECK(e->pair_half_width == doctest::Approx(wanted).epsilon(1e-6));
}

/// Where measuring stops that is asked after every pair.
struct stop {
  double error = 0;  ///< root mean square of the middle
  double pairs = 0;  ///< mean
};

stop stop_by(const std::function<bool(const ratio_estimate&)>& stops) {
  // Of ln(ratio) of a pair it makes a deviation of 2 %.
  const double jitter = 0.02 / std::sqrt(2.0);
  constexpr std::uint64_t seeds = 400;
  stop found;
  for (std::uint64_t t = 0; t < seeds; ++t) {
    const auto all = measure({.jitter = jitter, .pairs = 600}, t);
    process_pairs pairs(all.begin(), all.begin() + 14);
    auto e = estimate_ratio(one(pairs)).value();
    while (pairs.size() < all.size() && !stops(e)) {
      pairs.push_back(all[pairs.size()]);
      e = estimate_ratio(one(pairs)).value();
    }
    found.error += e.mid * e.mid / seeds;
    found.pairs += static_cast<double>(pairs.size()) / seeds;
  }
  found.error = std::sqrt(found.error);
  return found;
}

TEST_CASE("measuring stops when the middle is as certain as it is asked to be, not by chance") {
  const estimate_limits limits{.narrow = 0.006};
  const double wanted = limits.narrow / 1.96;
  const stop found = stop_by([&](const auto& e) { return narrow_enough(e, limits); });
  CHECK(found.error < 1.1 * wanted);
  // Not by measuring for ever either.
  CHECK(found.error > wanted / 2);
  // Control: buckets alone are narrow by chance before that.
  const stop by_buckets =
      stop_by([&](const auto& e) { return e.window_half_width <= limits.narrow; });
  CHECK(by_buckets.error > 1.2 * wanted);
  MESSAGE(
      fmt::format("pairs of 2 %, half-width {:.1f} %, error wanted {:.2f} %: by buckets {:.2f} "
                  "% of {:.0f} pairs, by both half-widths {:.2f} % of {:.0f}",
                  100 * limits.narrow, 100 * wanted, 100 * by_buckets.error, by_buckets.pairs,
                  100 * found.error, found.pairs));
}

TEST_CASE("what the order of a pair's windows does costs no more pairs, since orders take turns") {
  const estimate_limits limits{.narrow = 0.006};
  const auto pairs_until_narrow = [&](double order) {
    double sum = 0;
    for (std::uint64_t t = 0; t < 100; ++t) {
      auto all = measure({.jitter = 0.0035, .pairs = 200}, t);
      for (std::size_t i = 0; i < all.size(); ++i)
        all[i].ref_ns *= std::exp(i % 2 == 0 ? order : -order);
      std::size_t count = 14;
      while (count < all.size() &&
             !narrow_enough(one({all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count)}),
                            limits))
        ++count;
      sum += static_cast<double>(count);
    }
    return sum / 100;
  };
  const double without = pairs_until_narrow(0), with = pairs_until_narrow(0.01);
  MESSAGE(fmt::format("pairs of 0.5 %: {:.0f}; where the first window takes 1 % longer {:.0f}",
                      without, with));
  CHECK(with < 1.3 * without);
}

TEST_CASE("a few pairs that were disturbed do not keep a measurement from its end") {
  const estimate_limits limits{.narrow = 0.006};
  int narrow = 0;
  for (std::uint64_t t = 0; t < 50; ++t)
    narrow += narrow_enough(one(measure({.jitter = 0.004, .hit_probability = 0.02}, t)), limits);
  CHECK(narrow >= 45);
}

TEST_CASE("even enough is what the estimate does not call noisy") {
  int even = 0;
  for (std::uint64_t t = 0; t < 100; ++t)
    for (const double jitter : {0.004, 0.05, 0.1, 0.4}) {
      const auto pairs = one(measure({.jitter = jitter}, t));
      const auto e = estimate_ratio(pairs);
      REQUIRE(e);
      CHECK(even_enough(pairs) == !e->noisy);
      even += even_enough(pairs) ? 1 : 0;
    }
  CHECK(even > 0);
  CHECK(even < 400);
  // Of too few there is no estimate.
  CHECK_FALSE(even_enough(one(process_pairs(bucket_count - 1, {100, 100}))));
}

TEST_CASE("measuring longer narrows the interval") {
  double shorter = 0, longer = 0;
  for (std::uint64_t t = 0; t < 200; ++t) {
    shorter += estimate_ratio(one(measure({.pairs = 14}, t))).value().window_half_width;
    longer += estimate_ratio(one(measure({.pairs = 224}, t))).value().window_half_width;
  }
  CHECK(longer < shorter / 3);
}

TEST_CASE("too few pairs and impossible times are refused, not estimated") {
  CHECK_FALSE(estimate_ratio({}).has_value());
  CHECK_FALSE(estimate_ratio(one(process_pairs(6, {1, 1}))).has_value());
  CHECK(estimate_ratio(one(process_pairs(7, {1, 1}))).has_value());
  for (double bad : {0.0, -1.0, double(NAN), double(INFINITY)}) {
    CHECK_FALSE(estimate_ratio(one(process_pairs(7, {1, bad}))).has_value());
    CHECK_FALSE(estimate_ratio(one(process_pairs(7, {bad, 1}))).has_value());
  }
}
