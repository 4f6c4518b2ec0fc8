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
        "evaluation set: 24 of 128 kernels timed that prompts show");
  CHECK(evaluation_set_line({.timed = 128, .to_time = 128, .all = 64}) ==
        "evaluation set: 0 of 64 prompts answered by the first weights");
}

TEST_CASE("before the first answer and after the last the line has no time") {
  constexpr quern::base::nanoseconds_t second = 1'000'000'000;
  CHECK(evaluation_set_line({.last = false, .answered = 0, .all = 64, .elapsed = 5 * second}) ==
        "evaluation set: 0 of 64 prompts answered by the first weights");
  CHECK(evaluation_set_line({.last = true, .answered = 64, .all = 64, .elapsed = 96 * second}) ==
        "evaluation set: 64 of 64 prompts answered by the last weights");
}
