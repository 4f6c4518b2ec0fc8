// The time that is left of equal pieces of work.
#include "actors/decide/time_left.hpp"

#include "support/test.hpp"

using quern::actors::time_left_text;

TEST_CASE("time that is left is that of the pieces that are done") {
  constexpr quern::base::nanoseconds_t second = 1'000'000'000;
  CHECK(time_left_text(5 * second, 0, 64).empty());
  CHECK(time_left_text(60 * second, 16, 64) == "about 3 min left");
  CHECK(time_left_text(60 * second, 48, 64) == "about 20 s left");
  CHECK(time_left_text(64 * second, 63, 64) == "about 10 s left");
  CHECK(time_left_text(60 * second, 64, 64).empty());
  CHECK(time_left_text(0, 3, 64).empty());
}
