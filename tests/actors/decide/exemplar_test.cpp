// The choice of exemplars: contrast, probabilities, cold start.
#include <cmath>
#include <map>
#include <set>

#include "actors/decide/exemplar_selector.hpp"
#include "support/test.hpp"

namespace {

using namespace quern;
using namespace quern::actors;
using storage::bucket_summary;

const std::vector<bucket_summary> three = {{2, 50, 10, 700}, {4, 100, 5, 600}, {9, 225, 1, 230}};

base::random_stream numbers(std::uint64_t group) {
  return {7, "exemplar", {group}};
}

std::vector<exemplar_pick> choose(const std::vector<bucket_summary>& buckets,
                                  const exemplar_options& options, std::uint64_t group) {
  const auto picks = choose_exemplars(buckets, options, numbers(group));
  REQUIRE(picks);
  return *picks;
}

TEST_CASE("two distinct buckets, by rising score, repeatable") {
  for (std::uint64_t group = 0; group < 2000; ++group) {
    const auto picks = choose(three, {}, group);
    REQUIRE(picks.size() == 2);
    CHECK(picks[0].bucket < picks[1].bucket);
    for (const auto& pick : picks) {
      const auto in = std::find_if(three.begin(), three.end(),
                                   [&](const auto& b) { return b.bucket == pick.bucket; });
      REQUIRE(in != three.end());
      CHECK(pick.k >= 0);
      CHECK(pick.k < in->count);
    }
    CHECK(choose(three, {}, group) == picks);
  }
}

TEST_CASE("the first of two is drawn by softmax over bucket means, variants uniformly") {
  constexpr int rounds = 20000;
  exemplar_options one;
  one.count = 1;
  one.temperature = 0.7;
  std::map<int, int> seen;
  std::map<std::int64_t, int> inside;
  for (std::uint64_t group = 0; group < rounds; ++group) {
    const auto pick = choose(three, one, group).at(0);
    ++seen[pick.bucket];
    if (pick.bucket == 4) ++inside[pick.k];
  }
  double sum = 0;
  for (const auto& b : three)
    sum += std::exp(b.mean() / 0.7);
  for (const auto& b : three) {
    const double expected = std::exp(b.mean() / 0.7) / sum;
    // Five standard deviations of a binomial count.
    const double slack = 5 * std::sqrt(rounds * expected * (1 - expected));
    CHECK(std::abs(seen[b.bucket] - rounds * expected) < slack);
  }
  for (std::int64_t k = 0; k < 5; ++k) {
    CHECK(std::abs(inside[k] - seen[4] / 5.0) < 5 * std::sqrt(seen[4] / 5.0));
  }
}

TEST_CASE("a tiny temperature takes the best, then the next; huge scores do not overflow") {
  exemplar_options cold;
  cold.temperature = 1e-9;
  const std::vector<bucket_summary> far = {
      {0, 0, 1, 1}, {1, 25, 1, 100'000'000}, {2, 50, 1, 200'000'000}};
  for (std::uint64_t group = 0; group < 50; ++group) {
    const auto picks = choose(far, cold, group);
    CHECK(picks[0].bucket == 1);
    CHECK(picks[1].bucket == 2);
  }
}

TEST_CASE("cold start: none, one, or two of one bucket") {
  CHECK(choose({}, {}, 1).empty());
  CHECK(choose({{3, 75, 1, 80}}, {}, 1) == std::vector<exemplar_pick>{{3, 0}});
  std::set<std::pair<std::int64_t, std::int64_t>> pairs;
  for (std::uint64_t group = 0; group < 500; ++group) {
    const auto picks = choose({{3, 75, 3, 240}}, {}, group);
    REQUIRE(picks.size() == 2);
    CHECK(picks[0].k != picks[1].k);
    pairs.insert({picks[0].k, picks[1].k});
  }
  CHECK(pairs.size() == 3);
  exemplar_options many;
  many.count = 5;
  CHECK(choose({{3, 75, 2, 160}, {5, 125, 1, 130}}, many, 1).size() == 3);
  exemplar_options none;
  none.count = 0;
  CHECK(choose(three, none, 1).empty());
}

TEST_CASE("island: both exemplars live on one island") {
  exemplar_options options;
  options.strategy = exemplar_strategy::island;
  options.islands = 3;
  std::set<std::int64_t> islands;
  for (std::uint64_t group = 0; group < 500; ++group) {
    const auto picks = choose({{1, 25, 7, 210}, {2, 50, 8, 480}}, options, group);
    REQUIRE(picks.size() == 2);
    CHECK(picks[0].k % 3 == picks[1].k % 3);
    CHECK(picks[0].bucket != picks[1].bucket);
    CHECK(picks[0].k < 7);
    CHECK(picks[1].k < 8);
    islands.insert(picks[0].k % 3);
  }
  CHECK(islands.size() == 3);
}

TEST_CASE("random: any two variants, equally often") {
  exemplar_options options;
  options.strategy = exemplar_strategy::random;
  std::map<int, int> seen;
  for (std::uint64_t group = 0; group < 8000; ++group) {
    const auto picks = choose(three, options, group);
    REQUIRE(picks.size() == 2);
    CHECK(picks[0] != picks[1]);
    for (const auto& pick : picks)
      ++seen[pick.bucket];
  }
  CHECK(std::abs(seen[2] - 10000) < 500);
  CHECK(std::abs(seen[4] - 5000) < 500);
  CHECK(std::abs(seen[9] - 1000) < 250);
}

TEST_CASE("options out of range are refused, strategies have names") {
  for (const auto& bad : {exemplar_options{exemplar_strategy::bucket, -1, 1, 1},
                          exemplar_options{exemplar_strategy::bucket, 2, 0, 1},
                          exemplar_options{exemplar_strategy::bucket, 2, NAN, 1},
                          exemplar_options{exemplar_strategy::island, 2, 1, 0}}) {
    CHECK_FALSE(choose_exemplars(three, bad, numbers(1)));
  }
  for (const auto strategy :
       {exemplar_strategy::bucket, exemplar_strategy::island, exemplar_strategy::random}) {
    CHECK(parse_exemplar_strategy(to_string(strategy)) == strategy);
  }
  CHECK_FALSE(parse_exemplar_strategy("best"));
}

}  // namespace
