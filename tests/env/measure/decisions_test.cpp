// Rounding, null distribution, recheck rule, roofline and window length, and seeded bugs that the
// checks must find.
#include <cmath>

#include "base/file.hpp"
#include "base/random.hpp"
#include "env/measure/null_distribution.hpp"
#include "env/measure/recheck.hpp"
#include "env/measure/rounding.hpp"
#include "env/measure/window_plan.hpp"
#include "support/test.hpp"

using namespace quern::env;

namespace {

/// The property that rounding must have, for any implementation of it: never further from 1 than
/// the measurement, never more than 0.01 nearer, on the same side, and 1.00 inside the null.
template <class Rounding>
bool rounds_honestly(Rounding&& rounding) {
  quern::base::random_stream random(7, "rounding");
  for (int i = 0; i < 20000; ++i) {
    const double log_ratio = (random.uniform() - 0.5) * (i % 2 == 0 ? 0.1 : 8.0);
    const double null = 0.02 * random.uniform();
    const double e2 = static_cast<double>(rounding(log_ratio, null)),
                 truth = 100 * std::exp(log_ratio);
    if (std::abs(log_ratio) <= null) {
      if (e2 != 100) return false;
    } else if (truth > 100 ? (e2 > truth || e2 < truth - 1 || e2 < 100)
                           : (e2 < truth || e2 > truth + 1 || e2 > 100)) {
      return false;
    }
  }
  return true;
}

}  // namespace

TEST_CASE("rounding is honest, and the check finds every wrong rounding") {
  CHECK(rounds_honestly(conservative_e2));
  CHECK_FALSE(rounds_honestly([](double r, double) { return std::llround(100 * std::exp(r)); }));
  CHECK_FALSE(rounds_honestly([](double r, double n) {
    return std::abs(r) <= n ? 100LL : static_cast<long long>(std::floor(100 * std::exp(r)));
  }));
  CHECK_FALSE(rounds_honestly([](double r, double n) {
    return std::abs(r) <= n ? 100LL : static_cast<long long>(std::ceil(100 * std::exp(r)));
  }));
  CHECK_FALSE(rounds_honestly([](double r, double) { return conservative_e2(r, 0); }));
  CHECK_FALSE(rounds_honestly([](double r, double n) { return conservative_e2(-r, n); }));
}

TEST_CASE("exact values survive exp and log") {
  for (int e2 : {2, 50, 99, 101, 137, 150, 1000, 123456})
    CHECK(conservative_e2(std::log(e2 / 100.0), 0) == e2);
  CHECK(conservative_e2(std::log(1.0199), 0) == 101);
  CHECK(conservative_e2(std::log(0.9801), 0) == 99);
  CHECK(conservative_e2(-1e9, 0) == 1);
  CHECK(conservative_e2(1e9, 0) == 100'000'000);
  CHECK(to_e9(0.5) == 500'000'000);
}

TEST_CASE("null distribution: between its points, beyond them, and through JSON") {
  const auto n = null_distribution::make({{1e6, 0.01}, {1e4, 0.03}}).value();
  CHECK(n.half_width(1e4) == 0.03);
  CHECK(n.half_width(1) == 0.03);
  CHECK(n.half_width(1e9) == 0.01);
  CHECK(n.half_width(1e5) == doctest::Approx(0.02));
  const auto again = null_distribution::from_json(n.to_json("cpp-avx2"), "cpp-avx2").value();
  CHECK(again.half_width(1e5) == doctest::Approx(n.half_width(1e5)));
  CHECK_FALSE(null_distribution::from_json(n.to_json("cpp-avx2"), "cpp-avx512").has_value());
  auto newer = n.to_json("cpp-avx2");
  newer["quern_null"] = 2;
  CHECK(null_distribution::from_json(newer, "cpp-avx2").error().code == quern::base::errc::version);
  CHECK_FALSE(null_distribution::make({}).has_value());
  CHECK_FALSE(null_distribution::make({{0, 0.1}}).has_value());
  CHECK_FALSE(null_distribution::make({{1, 1.5}}).has_value());
}

TEST_CASE(
    "a calibration is read from its file, and refused by name where it is of something else") {
  const auto folder = quern::base::temp_folder::make().value();
  const auto file = folder.path() / "null.json";
  const auto n = null_distribution::make({{1e6, 0.01}}).value();
  REQUIRE(quern::base::write_file_atomic(file, quern::base::dump(n.to_json("H200-SXM"))));
  const auto read = null_distribution::calibrated(file, "H200-SXM");
  REQUIRE(read.has_value());
  REQUIRE(read->has_value());
  CHECK((*read)->half_width(5) == 0.01);
  const auto other = null_distribution::calibrated(file, "H100-SXM");
  REQUIRE_FALSE(other.has_value());
  CHECK(other.error().message.find(file.string()) != std::string::npos);
  CHECK_FALSE(null_distribution::calibrated(folder.path() / "none.json", "H200-SXM").has_value());
}

TEST_CASE("large claims") {
  CHECK_FALSE(needs_recheck(3000, {}));
  CHECK(needs_recheck(3001, {}));
  CHECK(needs_recheck(301, {.recheck_above_e2 = 3000, .best_known_e2 = 150}));
  CHECK_FALSE(needs_recheck(300, {.recheck_above_e2 = 3000, .best_known_e2 = 150}));
  CHECK(unconfirmed_cap_e2({.recheck_above_e2 = 3000, .best_known_e2 = 150}) == 300);
  CHECK(unconfirmed_cap_e2({.recheck_above_e2 = 300, .best_known_e2 = 900}) == 300);
  // A best known that is slower than the baseline must not make the baseline's speed a large claim.
  CHECK_FALSE(needs_recheck(105, {.recheck_above_e2 = 3000, .best_known_e2 = 40}));
}

TEST_CASE("a second measurement confirms within 10 %, and the lower of both counts") {
  CHECK(confirmed_e2(std::vector<std::int64_t>{3300, 3000}) == 3000);
  CHECK(confirmed_e2(std::vector<std::int64_t>{3000, 3300}) == 3000);
  CHECK_FALSE(confirmed_e2(std::vector<std::int64_t>{3301, 3000}).has_value());
  CHECK_FALSE(confirmed_e2(std::vector<std::int64_t>{5000, 100}).has_value());
  CHECK_FALSE(confirmed_e2(std::vector<std::int64_t>{5000, 0}).has_value());
  CHECK_FALSE(confirmed_e2(std::vector<std::int64_t>{5000}).has_value());
}

TEST_CASE("large claims: of three measurements the lowest counts, if any two are near each other") {
  const auto of = [](std::vector<std::int64_t> claims) { return confirmed_e2(claims); };
  CHECK(of({307, 274, 280}) == 274);
  CHECK(of({280, 307, 274}) == 274);
  // One slow measurement of three: it counts, and the verdict stands.
  CHECK(of({503, 431, 505}) == 431);
  CHECK(of({307, 300, 200}) == 200);
  // No two agree.
  CHECK_FALSE(of({307, 274, 240}).has_value());
  CHECK_FALSE(of({400, 350, 300}).has_value());
  CHECK_FALSE(of({400, 390, 0}).has_value());
  CHECK_FALSE(of({}).has_value());
  CHECK(needs_third(307, 274));
  CHECK(needs_third(274, 307));
  CHECK_FALSE(needs_third(307, 300));  // the second bears the first out
  CHECK(needs_third(300, 200));
  CHECK_FALSE(needs_third(301, 200));
  CHECK_FALSE(needs_third(3000, 100));
  CHECK_FALSE(needs_third(3000, 0));
}

TEST_CASE("roofline: impossible is far below the floor only") {
  CHECK(beats_roofline(49, 100));
  CHECK_FALSE(beats_roofline(51, 100));
  CHECK_FALSE(beats_roofline(0.001, 0));
}

TEST_CASE("windows are long enough for the faster side, within memory and budget") {
  window_request r{.ref_call_ns = 1e5, .cand_call_ns = 1e5, .bytes_per_call = 1 << 10};
  CHECK(calls_per_window(r) == 20);
  r.cand_call_ns = 2e4;
  CHECK(calls_per_window(r) == 100);
  r.bytes_per_call = 4 << 20;
  CHECK(calls_per_window(r) == 24);
  r = {.ref_call_ns = 1e8, .cand_call_ns = 1e8, .bytes_per_call = 1 << 10};
  CHECK(calls_per_window(r) == 1);
  r = {.ref_call_ns = 1e6, .cand_call_ns = 1e3, .bytes_per_call = 1};
  CHECK(calls_per_window(r) * (r.ref_call_ns + r.cand_call_ns) * 16 <= r.budget_ns);
  CHECK(calls_per_window(r) >= 30);
  r = {.ref_call_ns = 0, .cand_call_ns = 0, .bytes_per_call = 0};
  CHECK(calls_per_window(r) >= 1);
}
