// The line of a closing comparison says how far it is and how long it still takes.
#include "actors/decide/evaluation_set_line.hpp"

#include "support/test.hpp"

using quern::actors::evaluation_set_line;

TEST_CASE("the line of a closing comparison has the time that is left of both halves") {
  constexpr quern::base::nanoseconds_t second = 1'000'000'000;
  CHECK(evaluation_set_line({.last = false, .answered = 16, .all = 64, .elapsed = 60 * second}) ==
        "evaluation set: 16 of 64 prompts answered by the first weights, about 7 min left");
  CHECK(evaluation_set_line({.last = false, .answered = 64, .all = 64, .elapsed = 240 * second}) ==
        "evaluation set: 64 of 64 prompts answered by the first weights, about 4 min left");
  CHECK(evaluation_set_line({.last = true, .answered = 32, .all = 64, .elapsed = 96 * second}) ==
        "evaluation set: 32 of 64 prompts answered by the last weights, about 30 s left");
}

TEST_CASE("while kernels that prompts show are timed the line counts these and has no time") {
  CHECK(evaluation_set_line({.timed = 24, .to_time = 128, .all = 64}) ==
        "evaluation set: 24 of 128 shown kernels timed");
  CHECK(evaluation_set_line({.timed = 128, .to_time = 128, .all = 64}) ==
        "evaluation set: 0 of 64 prompts answered by the first weights");
}

TEST_CASE("the time that shown kernels took is no time of answers") {
  using quern::base::operator""_s;
  quern::base::manual_clock clock;
  quern::actors::evaluation_set_position at(clock, 8);
  at.on_half(false);
  at.on_timed(0, 4);
  clock.advance(100_s);
  at.on_timed(3, 4);
  CHECK(at.line() == "evaluation set: 3 of 4 shown kernels timed");
  at.on_timed(4, 4);
  clock.advance(2_s);
  at.on_answered(1);
  CHECK(at.line() ==
        "evaluation set: 1 of 8 prompts answered by the first weights, about 30 s left");
  at.on_answered(8);
  at.on_half(true);
  clock.advance(20_s);
  at.on_answered(3);
  CHECK(at.line() ==
        "evaluation set: 3 of 8 prompts answered by the last weights, about 10 s left");
}

TEST_CASE("where no kernel is shown the time of answers begins with the first half") {
  using quern::base::operator""_s;
  quern::base::manual_clock clock(50_s);
  quern::actors::evaluation_set_position at(clock, 8);
  clock.advance(2_s);
  at.on_answered(1);
  CHECK(at.line() ==
        "evaluation set: 1 of 8 prompts answered by the first weights, about 30 s left");
}

TEST_CASE("before the first answer and after the last the line has no time") {
  constexpr quern::base::nanoseconds_t second = 1'000'000'000;
  CHECK(evaluation_set_line({.last = false, .answered = 0, .all = 64, .elapsed = 5 * second}) ==
        "evaluation set: 0 of 64 prompts answered by the first weights");
  CHECK(evaluation_set_line({.last = true, .answered = 64, .all = 64, .elapsed = 96 * second}) ==
        "evaluation set: 64 of 64 prompts answered by the last weights");
}
