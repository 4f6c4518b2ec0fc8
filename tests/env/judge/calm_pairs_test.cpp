// Which pairs of windows count.
#include "env/judge/calm_pairs.hpp"

#include <algorithm>
#include <vector>

#include "base/random.hpp"
#include "env/judge/core_pace.hpp"
#include "support/test.hpp"

using namespace quern;
using env::calm_pairs;
using choice = env::calm_pairs::choice;

namespace {

/// Looks, so many of them on a shared core.
std::vector<base::nanoseconds_t> looks_of(std::size_t shared, std::size_t all) {
  const auto least = env::core_pace_ns();
  std::vector<base::nanoseconds_t> looks(all, 1);
  std::fill_n(looks.begin(), shared, 100 * least);
  return looks;
}

void saw(calm_pairs& pairs, std::size_t times, bool reference_shared, bool candidate_shared) {
  for (std::size_t i = 0; i < times; ++i)
    pairs.saw(reference_shared, candidate_shared);
}

}  // namespace

TEST_CASE("a window is shared by two looks and more than a quarter of them") {
  const auto is_shared = [](std::size_t shared, std::size_t all) {
    return env::calm_pairs::is_shared(looks_of(shared, all));
  };
  CHECK_FALSE(is_shared(0, 0));
  CHECK_FALSE(is_shared(1, 1));
  CHECK_FALSE(is_shared(1, 2));
  CHECK(is_shared(2, 2));
  CHECK(is_shared(2, 7));
  CHECK_FALSE(is_shared(2, 8));
  CHECK_FALSE(is_shared(3, 12));
  CHECK(is_shared(4, 12));
}

TEST_CASE("pairs that count were measured in one state of their core, if there are enough") {
  calm_pairs pairs;
  CHECK(pairs.chosen() == choice::all);  // nothing is known
  saw(pairs, 6, false, false);
  CHECK(pairs.chosen() == choice::all);
  // One for each bucket, and most of all pairs.
  saw(pairs, 1, false, false);
  CHECK(pairs.chosen() == choice::calm);
  saw(pairs, 7, true, true);
  CHECK(pairs.chosen() == choice::all);  // as many of each
  saw(pairs, 1, true, true);
  CHECK(pairs.chosen() == choice::shared);
  // Calm ones come first once there are two for each bucket, however many were shared.
  saw(pairs, 200, true, true);
  saw(pairs, 6, false, false);
  CHECK(pairs.chosen() == choice::shared);
  saw(pairs, 1, false, false);
  CHECK(pairs.chosen() == choice::calm);

  CHECK(pairs.counts(6, choice::calm));
  CHECK_FALSE(pairs.counts(7, choice::calm));
  CHECK(pairs.counts(7, choice::shared));
  CHECK_FALSE(pairs.counts(6, choice::shared));
  CHECK(pairs.counts(6, choice::all));
  CHECK(pairs.counts(100'000, choice::calm));  // one that it did not see
}

TEST_CASE("a pair with one shared window is in no state, and counts only where all do") {
  calm_pairs pairs;
  saw(pairs, 14, true, false);
  saw(pairs, 14, false, true);
  CHECK(pairs.chosen() == choice::all);
  saw(pairs, 14, false, false);
  REQUIRE(pairs.chosen() == choice::calm);
  for (std::size_t i = 0; i < 28; ++i) {
    CHECK_FALSE(pairs.counts(i, choice::calm));
    CHECK_FALSE(pairs.counts(i, choice::shared));
  }
}

TEST_CASE("a candidate that makes its own windows look shared has none left out") {
  calm_pairs pairs;
  int first_all = -1;
  for (int i = 0; i < 100; ++i) {
    pairs.saw(false, i % 4 == 3);
    if (first_all < 0 && i > 28 && pairs.chosen() == choice::all) first_all = i;
  }
  CHECK(first_all > 0);
  CHECK(first_all < 40);
  CHECK(pairs.chosen() == choice::all);
  // The control: as many of the reference's windows, and it is what sharing does.
  saw(pairs, 25, true, false);
  CHECK(pairs.chosen() == choice::calm);
}

TEST_CASE("what sharing does to both sides alike is left out, by a coin for each window") {
  base::random_stream coin(1, "sides of a calm pair");
  int lopsided = 0;
  for (int run = 0; run < 200; ++run) {
    calm_pairs pairs;
    for (int i = 0; i < 100; ++i)
      pairs.saw(coin.chance(0.15), coin.chance(0.15));
    lopsided += pairs.chosen() == choice::all ? 1 : 0;
  }
  CHECK(lopsided <= 4);
}
