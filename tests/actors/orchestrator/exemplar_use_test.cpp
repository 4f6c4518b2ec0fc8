// What counts as use of the kernels that a prompt shows.
#include "actors/orchestrator/exemplar_use.hpp"

#include <cmath>

#include "support/test.hpp"

using namespace quern;
using namespace quern::actors;

namespace {

exemplar_answer right(std::int64_t speedup_e2, bool copies = false) {
  return {true, speedup_e2, copies, 200};
}

exemplar_answer wrong(bool copies = false) {
  return {false, 0, copies, 200};
}

}  // namespace

TEST_CASE("an answer improves where it is right and faster by more than noise") {
  exemplar_use use;
  use.add(right(206));
  use.add(right(205));
  use.add(right(100));
  use.add(wrong());
  CHECK(use.judged() == 4);
  CHECK(use.improved() == doctest::Approx(0.25));
  CHECK(use.copied() == 0);
  CHECK(use.over_best() == doctest::Approx(std::cbrt(1.03 * 1.025 * 0.5)));
}

TEST_CASE("an answer copies where it is one of those shown, right or wrong") {
  exemplar_use use;
  use.add(right(200, true));
  use.add(wrong(true));
  use.add(wrong());
  CHECK(use.copied() == doctest::Approx(2.0 / 3));
}

TEST_CASE("where nothing was right, there is no speed-up over the best") {
  exemplar_use none, some;
  CHECK(none.to_json()["over_best"].is_null());
  none.add(wrong());
  CHECK(none.to_json()["over_best"].is_null());
  some.add(right(300));
  CHECK(some.to_json()["over_best"] == 1.5);
  CHECK(text_of(none, some) ==
        "improves on the best shown: 0 % first, 100 % last; copies one: 0 % first, 0 % last; "
        "speed-up over it: - first, x1.50 last");
}
