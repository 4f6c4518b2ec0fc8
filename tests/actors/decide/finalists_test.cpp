// Which kernel of a search is kept.
#include "actors/decide/finalists.hpp"

#include <vector>

#include "support/test.hpp"

using namespace quern;
using namespace quern::actors;

namespace {

found_kernel found(std::int64_t speedup, std::int64_t low = 0, std::int64_t high = 0) {
  return {.sample = 1, .speedup_e2 = speedup, .low_e2 = low, .high_e2 = high};
}

std::size_t count(const std::vector<found_kernel>& kernels) {
  return count_finalists(kernels);
}

env::verdict judged(env::verdict_kind kind, std::int64_t speedup_e2 = 0) {
  env::verdict v;
  v.kind = kind;
  if (kind == env::verdict_kind::ok) v.speedup_e2 = speedup_e2;
  return v;
}

TEST_CASE("two measurements of a kernel disagree where their intervals have nothing in common") {
  CHECK(disagree(found(369, 357, 382), found(425, 410, 441)));
  CHECK(disagree(found(425, 410, 441), found(369, 357, 382)));
  CHECK_FALSE(disagree(found(369, 357, 382), found(390, 382, 400)));
  CHECK_FALSE(disagree(found(369, 357, 382), found(369, 300, 400)));
  CHECK_FALSE(disagree(found(369), found(425, 410, 441)));
  // A claim that was borne out lies below the interval of the measurement that did it.
  CHECK_FALSE(disagree(found(300, 320, 340), found(300, 290, 310)));
}

TEST_CASE("those whose interval reaches the best's are measured again, three at most") {
  CHECK(count({}) == 0);
  CHECK(count({found(300, 290, 310)}) == 1);
  CHECK(count({found(300, 290, 310), found(280, 270, 289)}) == 1);
  CHECK(count({found(300, 290, 310), found(280, 270, 290)}) == 2);
  // The second is apart: what is behind it is not looked at.
  CHECK(count({found(300, 290, 310), found(280, 270, 289), found(270, 100, 400)}) == 1);
  CHECK(count(std::vector(5, found(300, 200, 400))) == 3);
  // A claim that was borne out lies below the interval of the measurement that did it.
  CHECK(count({found(300, 320, 340), found(299, 290, 305)}) == 2);
}

TEST_CASE("what has no interval is exact") {
  CHECK(count({found(220), found(219)}) == 1);
  CHECK(count({found(220), found(220)}) == 1);
}

TEST_CASE("those that are right when they are measured again come first, by their speed") {
  using kind = env::verdict_kind;
  using order = std::vector<std::size_t>;
  const auto ranked = [](const std::vector<env::verdict>& again) { return ranked_again(again); };
  CHECK(ranked({judged(kind::ok, 120), judged(kind::ok, 150), judged(kind::ok, 150)}) ==
        order{1, 2, 0});
  CHECK(ranked({judged(kind::noisy), judged(kind::ok, 90)}) == order{1, 0});
  CHECK(ranked({judged(kind::wrong_value), judged(kind::noisy)}) == order{0, 1});
  CHECK(ranked({}).empty());
}

TEST_CASE("a noisy verdict is tried again for longer, three times in all") {
  std::vector<double> asked;
  std::size_t noisy = 0;
  const auto judge = [&](double seconds) -> base::expected<env::verdict> {
    asked.push_back(seconds);
    if (asked.size() <= noisy) return judged(env::verdict_kind::noisy);
    return judged(env::verdict_kind::ok, 150);
  };
  const auto after = [&](std::size_t how_many) {
    asked.clear();
    noisy = how_many;
    return judge_while_noisy(0.5, judge).value().kind;
  };
  CHECK(after(0) == env::verdict_kind::ok);
  CHECK(asked == std::vector<double>{0.5});
  CHECK(after(2) == env::verdict_kind::ok);
  CHECK(asked == std::vector<double>{0.5, 1, 2});
  CHECK(after(3) == env::verdict_kind::noisy);
  CHECK(asked.size() == 3);
  const auto lost = judge_while_noisy(0.5, [](double) -> base::expected<env::verdict> {
    return base::fail(base::errc::unavailable, "no judge");
  });
  REQUIRE_FALSE(lost);
  CHECK(lost.error().message == "no judge");
}

}  // namespace
