// Compositions as text, their rules, and what they mean on numbers small enough to check by hand.
#include "env/grammar/composition.hpp"

#include <algorithm>
#include <cmath>

#include "base/random.hpp"
#include "env/grammar/interpret.hpp"
#include "env/grammar/value_range.hpp"
#include "support/test.hpp"

using namespace quern;
using env::composition;

namespace {

std::vector<double> apply(std::string_view text, std::vector<float> x, std::int64_t n,
                          std::vector<float> w = {}, std::vector<float> t = {}) {
  const auto what = env::parse_composition(text).value();
  const auto m = static_cast<std::int64_t>(x.size()) / n;
  return interpret(what, {n, m, x, w, t});
}

void check_near(const std::vector<double>& got, const std::vector<double>& want) {
  REQUIRE(got.size() == want.size());
  for (std::size_t k = 0; k < want.size(); ++k)
    CHECK(got[k] == doctest::Approx(want[k]));
}

std::string error_of(std::string_view text) {
  const auto parsed = env::parse_composition(text);
  REQUIRE_FALSE(parsed);
  return parsed.error().message;
}

}  // namespace

TEST_CASE("a composition reads back from its text") {
  for (const std::string text : {"relu", "scale 0.1 | times_row | row_sum | tanh",
                                 "shift -1.5 | softmax | plus_tensor", "transpose | root"})
    CHECK(to_text(env::parse_composition(text).value()) == text);
}

TEST_CASE("what breaks a rule is refused with the rule") {
  CHECK(error_of("relo").find("did you mean 'relu'") != std::string::npos);
  CHECK(error_of("").find("no operator ''") != std::string::npos);
  CHECK(error_of("scale").find("1 words, 2 are needed") != std::string::npos);
  CHECK(error_of("relu 2").find("2 words, 1 are needed") != std::string::npos);
  CHECK(error_of("scale x").find("not a number") != std::string::npos);
  CHECK(error_of("scale inf").find("not allowed") != std::string::npos);
  CHECK(error_of("softmax | row_sum").find("at most one") != std::string::npos);
  CHECK(error_of("row_sum | times_row").find("row_sum has left behind") != std::string::npos);
  CHECK(error_of("transpose | plus_tensor").find("transpose has left") != std::string::npos);
  CHECK(error_of("relu|relu|relu|relu|relu|relu|relu|relu|relu|relu|relu|relu|relu")
            .find("1 to 12 steps, this has 13") != std::string::npos);
}

TEST_CASE("no bytes make the parser throw, and what it accepts is valid") {
  const std::string alphabet = "relusoftmax|| _0.5-e9 scale shift row_sum";
  int accepted = 0;
  for (std::uint64_t k = 0; k < 20000; ++k) {
    base::random_stream random(1, "fuzz", {k});
    std::string text = k % 2 == 0 ? "relu | scale 0.5 | row_sum" : "";
    const auto edits = random.below(6);
    for (std::uint64_t e = 0; e < edits; ++e)
      text.insert(random.below(text.size() + 1), 1, alphabet[random.below(alphabet.size())]);
    if (const auto parsed = env::parse_composition(text)) {
      ++accepted;
      CHECK(validate(*parsed));
      CHECK(env::parse_composition(to_text(*parsed)).value() == *parsed);
    }
  }
  CHECK(accepted > 1000);
}

TEST_CASE("every operator means what it says") {
  check_near(apply("relu", {-1, 2}, 1), {0, 2});
  check_near(apply("clip", {-3, 0.5, 4}, 1), {-1, 0.5, 1});
  check_near(apply("abs", {-3, 2}, 1), {3, 2});
  check_near(apply("negate", {-3, 2}, 1), {3, -2});
  check_near(apply("square", {-3, 2}, 1), {9, 4});
  check_near(apply("root", {-3, 8}, 1), {2, 3});
  check_near(apply("softsign", {-3, 1}, 1), {-0.75, 0.5});
  check_near(apply("sigmoid", {0, 2}, 1), {0.5, 0.880797078});
  check_near(apply("tanh", {0, 1}, 1), {0, 0.761594156});
  check_near(apply("silu", {0, 2}, 1), {0, 1.761594156});
  check_near(apply("decay", {-1, 2}, 1), {0.367879441, 0.135335283});
  check_near(apply("scale -2", {-1, 2}, 1), {2, -4});
  check_near(apply("shift 0.5", {-1, 2}, 1), {-0.5, 2.5});
  check_near(apply("times_row", {1, 2, 3, 4}, 2, {10, -1}), {10, -2, 30, -4});
  check_near(apply("plus_row", {1, 2, 3, 4}, 2, {10, -1}), {11, 1, 13, 3});
  check_near(apply("times_tensor", {1, 2}, 1, {}, {3, -1}), {3, -2});
  check_near(apply("plus_tensor", {1, 2}, 1, {}, {3, -1}), {4, 1});
  check_near(apply("max_tensor", {1, 2}, 1, {}, {3, -1}), {3, 2});
  check_near(apply("centre", {1, 3, 0, 8}, 2), {-1, 1, -4, 4});
  check_near(apply("rms", {3, 4}, 1), {3 / std::sqrt(12.51), 4 / std::sqrt(12.51)});
  check_near(apply("l1", {-1, 3}, 1), {-1 / 2.01, 3 / 2.01});
  check_near(apply("layer_norm", {1, 3}, 1), {-1 / std::sqrt(1.01), 1 / std::sqrt(1.01)});
  check_near(apply("softmax", {1000, 1000, 0, 0}, 2), {0.5, 0.5, 0.5, 0.5});
  check_near(apply("running_sum", {1, 2, 3, 4}, 2), {1, 3, 3, 7});
  check_near(apply("running_max", {1, 3, 2, 5, 4, 6}, 2), {1, 3, 3, 5, 5, 6});
  check_near(apply("difference", {1, 3, 2, 5, 4, 6}, 2), {1, 2, -1, 5, -1, 2});
  check_near(apply("smooth", {1, 3, 2, 5, 4, 6}, 2), {4, 6, 5, 9, 15, 10});
  check_near(apply("row_sum", {1, 3, 2, 5, 4, 6}, 2), {6, 15});
  check_near(apply("row_max", {1, 3, 2, 5, 4, 6}, 2), {3, 6});
  check_near(apply("row_mean", {1, 3, 2, 5, 4, 6}, 2), {2, 5});
  check_near(apply("transpose", {1, 3, 2, 5, 4, 6}, 2), {1, 5, 3, 4, 2, 6});
  check_near(apply("plus_row | row_max | scale 2", {1, 3, 2, 5}, 2, {1, 0}), {6, 10});
}

TEST_CASE("the short exponential is as exact as it says") {
  double absolute = 0;
  for (float v = -100; v <= 0; v += 0.00137F)
    absolute = std::max(absolute, std::fabs(env::fast_exp(v) - std::exp(static_cast<double>(v))));
  CHECK(absolute < 1e-5);
  double relative = 0;
  for (float v = -4; v <= 4; v += 0.00037F)
    relative =
        std::max(relative, std::fabs(env::fast_exp(v) / std::exp(static_cast<double>(v)) - 1));
  CHECK(relative < 6e-5);
  for (const float v : {-1e8F, -1e6F, -500.0F, -81.0F})
    CHECK(env::fast_exp(v) < 1e-25F);
  CHECK(env::fast_exp(1e6F) > 1e30F);
}

TEST_CASE("a value range contains every value") {
  for (int kind = 0; kind < env::step_kind_count; ++kind) {
    env::composition_step step{static_cast<env::step_kind>(kind), 0};
    if (has_constant(step.kind)) step.constant = -1.5F;
    for (std::uint64_t k = 0; k < 40; ++k) {
      base::random_stream random(2, "range", {k, static_cast<std::uint64_t>(kind)});
      const double low = random.uniform() * 6 - 4;
      const double high = low + random.uniform() * 4;
      std::vector<float> x(24);
      std::vector<float> w(8);
      std::vector<float> t(24);
      for (float& v : x)
        v = static_cast<float>(low + (high - low) * random.uniform());
      for (float& v : w)
        v = static_cast<float>(random.normal());
      for (float& v : t)
        v = static_cast<float>(random.normal());
      const env::value_range range = range_after(step, {low, high});
      for (const double v : interpret(composition{{step}}, {3, 8, x, w, t})) {
        CHECK(v >= range.low - 1e-6);
        CHECK(v <= range.high + 1e-6);
      }
    }
  }
}
