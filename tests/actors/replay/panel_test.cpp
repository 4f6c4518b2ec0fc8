// The figures of a panel: paired, and honest about chance.
#include "actors/replay/panel.hpp"

#include "base/random.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::actors;

TEST_CASE("gain is the ratio of means") {
  panel_half half{{1, 0, 1, 0}, {2, 0, 1, 0}};
  CHECK(half.gain() == doctest::Approx(1.5));
  CHECK(panel_half{}.gain() == 0);
}

TEST_CASE("a panel against itself gains nothing, whatever the draw") {
  base::random_stream random(1, "panel test");
  panel_half half;
  for (int i = 0; i < 64; ++i) {
    half.first.push_back(random.chance(0.5) ? random.uniform() * 3 : 0);
  }
  half.last = half.first;
  CHECK(half.gain() == doctest::Approx(1));
  CHECK(half.gain_lower_bound(1) == doctest::Approx(1));
}

TEST_CASE("the lower bound tells a gain from luck") {
  base::random_stream random(2, "panel test");
  panel_half lucky;
  panel_half sure;
  for (int i = 0; i < 64; ++i) {
    const double before = random.chance(0.5) ? 1 : 0;
    lucky.first.push_back(before);
    lucky.last.push_back(random.chance(0.52) ? 1 : 0);
    sure.first.push_back(before);
    sure.last.push_back(before * 2 + 0.1);
  }
  CHECK(lucky.gain_lower_bound(1) < 1);
  CHECK(sure.gain_lower_bound(1) > 1.5);
}
