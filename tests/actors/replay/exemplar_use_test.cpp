// What counts as use of the kernels that a prompt shows.
#include "actors/replay/exemplar_use.hpp"

#include <cmath>

#include "support/test.hpp"

using namespace quern;
using namespace quern::actors;

namespace {

const std::vector<std::string> shown = {"aa", "bb"};

env::verdict ok(std::int64_t speedup_e2) {
  env::verdict v;
  v.kind = env::verdict_kind::ok;
  v.speedup_e2 = speedup_e2;
  return v;
}

env::verdict wrong() {
  env::verdict v;
  v.kind = env::verdict_kind::wrong_value;
  return v;
}

}  // namespace

TEST_CASE("an answer improves where it is right and faster by more than noise") {
  exemplar_use use;
  use.add(ok(206), "cc", shown, 200);
  use.add(ok(205), "cc", shown, 200);
  use.add(ok(100), "cc", shown, 200);
  use.add(wrong(), "cc", shown, 200);
  CHECK(use.judged() == 4);
  CHECK(use.improved() == doctest::Approx(0.25));
  CHECK(use.copied() == 0);
  CHECK(use.over_best() == doctest::Approx(std::cbrt(1.03 * 1.025 * 0.5)));
}

TEST_CASE("an answer copies where it is one of those shown, right or wrong") {
  exemplar_use use;
  use.add(ok(200), "aa", shown, 200);
  use.add(wrong(), "bb", shown, 200);
  // No source could be read.
  use.add(wrong(), "", std::vector<std::string>{""}, 200);
  CHECK(use.copied() == doctest::Approx(2.0 / 3));
}

TEST_CASE("where nothing was right, there is no speed-up over the best") {
  exemplar_use none, some;
  CHECK(none.to_json()["over_best"].is_null());
  none.add(wrong(), "cc", shown, 200);
  CHECK(none.to_json()["over_best"].is_null());
  some.add(ok(300), "cc", shown, 200);
  CHECK(some.to_json()["over_best"] == 1.5);
  CHECK(text_of(none, some) ==
        "improves on the best shown 0 > 100 %, copies one 0 > 0 %, speed-up over it - > x1.50");
}
