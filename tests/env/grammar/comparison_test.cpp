// What a comparing record shows, and the answer that follows.
#include "env/grammar/comparison.hpp"

#include <algorithm>

#include "support/test.hpp"

using namespace quern;
using env::scored_variant;

namespace {

scored_variant scored(std::string style, std::int64_t speedup_e2) {
  scored_variant one;
  one.variant.source = style + " code";
  one.variant.style = std::move(style);
  one.speedup_e2 = speedup_e2;
  return one;
}

/// Styles of up to four words; some scores are within least_gain of each other.
std::vector<scored_variant> random_pool(std::uint64_t k) {
  base::random_stream random(5, "pool", {k});
  constexpr std::string_view words[] = {"rows", "tiles", "fused", "split", "fast", "hoist"};
  std::vector<scored_variant> pool;
  for (auto left = random.below(8); left > 0; --left) {
    std::string style;
    for (auto count = 1 + random.below(4); count > 0; --count)
      style += std::string(style.empty() ? "" : " ") + std::string(words[random.below(6)]);
    pool.push_back(scored(style, random.between(50, 60 + 40 * static_cast<int>(random.below(8)))));
  }
  return pool;
}

}  // namespace

TEST_CASE(
    "an answer is never shown, and improves on all that is shown or is the best of the rest") {
  int improving = 0, best_shown = 0, none = 0;
  for (std::uint64_t k = 0; k < 4000; ++k) {
    const auto pool = random_pool(k);
    base::random_stream random(6, "comparison", {k});
    const std::size_t count = 1 + k % 3;
    const bool shows_best = random.chance(0.3);
    const auto made = env::draw_comparison(pool, count, shows_best, random);
    if (!made) {
      ++none;
      continue;
    }
    REQUIRE(made->shown.size() == count);
    REQUIRE(made->improves != shows_best);
    auto places = made->shown;
    places.push_back(made->answer);
    std::ranges::sort(places);
    REQUIRE(std::ranges::adjacent_find(places) == places.end());
    REQUIRE(places.back() < pool.size());
    const auto score = [&](std::size_t i) { return pool[i].speedup_e2; };
    const auto answer = static_cast<double>(score(made->answer));
    if (made->improves) {
      ++improving;
      for (const std::size_t i : made->shown)
        REQUIRE(answer >= env::least_gain * static_cast<double>(score(i)));
    } else {
      ++best_shown;
      const std::int64_t best = std::ranges::max(pool, {}, &scored_variant::speedup_e2).speedup_e2;
      REQUIRE(std::ranges::any_of(made->shown, [&](std::size_t i) { return score(i) == best; }));
      for (std::size_t i = 0; i < pool.size(); ++i)
        if (std::ranges::find(made->shown, i) == made->shown.end())
          REQUIRE(score(i) <= score(made->answer));
    }
  }
  CHECK(improving > 1000);
  CHECK(none > 100);
  // Whether there is a comparison does not depend on which was asked for.
  const double share = static_cast<double>(best_shown) / (improving + best_shown);
  CHECK(share == doctest::Approx(0.3).epsilon(0.1));
}

TEST_CASE("pools in which nothing is better have no comparison, whatever is drawn") {
  base::random_stream random(7, "alike");
  const std::vector alike{scored("a", 200), scored("b", 202), scored("c", 204)};
  for (int k = 0; k < 50; ++k) {
    for (const bool shows_best : {false, true}) {
      for (const std::size_t count : {0, 1, 2, 3})
        CHECK_FALSE(env::draw_comparison(alike, count, shows_best, random));
      CHECK_FALSE(env::draw_comparison({}, 1, shows_best, random));
    }
  }
  // The control: one that is faster.
  const std::vector one_better{scored("a", 200), scored("b", 202), scored("c", 300)};
  const auto made = env::draw_comparison(one_better, 2, false, random);
  REQUIRE(made);
  CHECK(made->answer == 2);
  const auto known = env::draw_comparison(one_better, 2, true, random);
  REQUIRE(known);
  CHECK(known->answer != 2);
}

TEST_CASE("of several better kernels the answer is the nearest in style, of equals the fastest") {
  base::random_stream random(8, "nearest");
  const std::vector pool{scored("rows fused", 100), scored("tiles split fast", 900),
                         scored("rows fused fast", 300), scored("rows fused hoist", 200)};
  int seen = 0;
  for (int k = 0; k < 200; ++k) {
    const auto made = env::draw_comparison(pool, 1, false, random);
    REQUIRE(made);
    if (made->shown.front() != 0) continue;
    ++seen;
    CHECK(made->answer == 2);
  }
  CHECK(seen > 20);
}

TEST_CASE("what changes between styles is told by their words, each as often as it stands there") {
  const auto change = env::change_of("rows fused fast fast", "tiles fast fused");
  CHECK(change.kept == std::vector<std::string>{"fused", "fast"});
  CHECK(change.dropped == std::vector<std::string>{"rows", "fast"});
  CHECK(change.taken == std::vector<std::string>{"tiles"});
}

TEST_CASE("the analysis names the leader with its measured lead, and what follows") {
  const std::vector shown{scored("rows split doubles", 142), scored("rows fused fast hoist", 310)};
  const auto line = [&](std::string style, bool improves, std::size_t count = 2) {
    return env::comparing_line(std::span(shown).last(count), scored(std::move(style), 1).variant,
                               improves);
  };
  CHECK(line("rows fused doubles", true) ==
        "2 leads, 3.10 to 1.42: rows fused fast hoist. Keep rows fused; drop fast hoist; take "
        "doubles.");
  CHECK(line("rows fused fast", false) ==
        "2 leads, 3.10 to 1.42: rows fused fast hoist. None faster is known. Keep rows fused fast; "
        "drop hoist.");
  CHECK(line("tiles", true, 1) ==
        "1 leads, 3.10: rows fused fast hoist. Drop rows fused fast hoist; take tiles.");
  scored_variant wrong = scored("rows", 0);
  wrong.verdict = env::verdict_kind::wrong_value;
  const std::vector with_wrong{wrong, shown[1], shown[0]};
  CHECK(
      env::comparing_line(with_wrong, scored("rows fused", 1).variant, true) ==
      "2 leads, 3.10 to 1.42: rows fused fast hoist. 1 is wrong_value. Keep rows fused; drop fast "
      "hoist.");
}
