// What a window took: the wall clock less what others had.
#include "env/core/window_time.hpp"

#include "support/test.hpp"

using namespace quern::env;

namespace {

constexpr double ms = 1e6;

/// 10 ms of work and 1 ms of handshake, all of it on the core.
core_clocks undisturbed() {
  return {11 * ms, 11 * ms, 0, 0, 1 * ms, 1 * ms};
}

}  // namespace

TEST_CASE("a window is the wall clock less its handshake") {
  CHECK(time_of_window(undisturbed()).ns == doctest::Approx(10 * ms));
  CHECK_FALSE(time_of_window(undisturbed()).disturbed);
}

TEST_CASE("what others had of the core does not count, whoever waited for it") {
  for (const bool evaluator_waited : {false, true}) {
    core_clocks busy = undisturbed();
    busy.wall_ns += 5 * ms;
    busy.child_waited_ns = 5 * ms;
    // The evaluator's thread waits while the runner computes, and while others do.
    if (evaluator_waited) busy.own_waited_ns = busy.cpu_ns + 5 * ms;
    CHECK(time_of_window(busy).ns == doctest::Approx(10 * ms));
  }
}

// On a busy core CPU time counts alone: what a runner slept cannot be told from what others had.
TEST_CASE("a window that slept costs what it slept, where nobody else had the core") {
  core_clocks slept = undisturbed();
  slept.wall_ns += 20 * ms;
  CHECK(time_of_window(slept).ns == doctest::Approx(30 * ms));
  slept.wall_ns += 5 * ms;
  slept.child_waited_ns = 5 * ms;
  CHECK(time_of_window(slept).ns == doctest::Approx(10 * ms));
}

TEST_CASE("a window that others had for the most part is left out") {
  core_clocks lost = undisturbed();
  lost.wall_ns += 500 * ms;
  lost.child_waited_ns = 500 * ms;
  CHECK(time_of_window(lost).disturbed);
}
