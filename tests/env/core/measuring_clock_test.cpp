// The clock of budgets: what it leaves out, and for how long.
#include "env/core/measuring_clock.hpp"

#include "support/test.hpp"

using namespace quern;
using base::operator""_ms;

TEST_CASE("making content costs nothing until its allowance is used up") {
  base::manual_clock outside(1'000);
  env::measuring_clock inside(outside, 100_ms);
  const auto start = inside.now_ns();
  outside.advance(10_ms);
  CHECK(inside.now_ns() - start == 10_ms);
  inside.pause();
  outside.advance(60_ms);
  inside.go_on();
  CHECK(inside.now_ns() - start == 10_ms);
  inside.pause();
  outside.advance(60_ms);
  inside.go_on();
  // 40 ms were left of it.
  CHECK(inside.now_ns() - start == 30_ms);
  outside.advance(5_ms);
  CHECK(inside.now_ns() - start == 35_ms);
  inside.pause();
  outside.advance(7_ms);
  inside.go_on();
  CHECK(inside.now_ns() - start == 42_ms);
}
