// Which steps a file has or lacks, and what a person is told of them.
#include "actors/decide/step_spans.hpp"

#include <initializer_list>

#include "support/test.hpp"

using namespace quern;
using namespace quern::actors;
using test::contains;

namespace {

step_spans spans_of(std::initializer_list<weights_version> steps) {
  step_spans made;
  for (const weights_version step : steps)
    made.add(step);
  return made;
}

step_spans first_steps(weights_version last) {
  step_spans made;
  for (weights_version step = 1; step <= last; ++step)
    made.add(step);
  return made;
}

}  // namespace

TEST_CASE("steps in any order, and again, are stretches in ascending order") {
  const std::vector<step_span> wanted = {{1, 3}, {5, 6}, {9, 9}};
  CHECK(spans_of({1, 2, 3, 5, 6, 9}).spans() == wanted);
  CHECK(spans_of({9, 6, 5, 3, 1, 2, 2, 6}).spans() == wanted);
  CHECK(spans_of({5, 1, 3, 6, 2, 9, 1}).spans() == wanted);
  CHECK(spans_of({1, 3, 2}).spans() == std::vector<step_span>{{1, 3}});
  CHECK(spans_of({1, 2, 3, 5, 6, 9}).count() == 6);
  CHECK(step_spans().count() == 0);
}

TEST_CASE("what is missing of the trained steps: all, a beginning, a middle, an end, or nothing") {
  const auto lacks = [](const step_spans& present, std::int64_t trained) {
    return present.missing(trained).spans();
  };
  CHECK(lacks({}, 60) == std::vector<step_span>{{1, 60}});
  CHECK(lacks({}, 0).empty());
  CHECK(lacks({}, -1).empty());
  CHECK(lacks(spans_of({61}), 61) == std::vector<step_span>{{1, 60}});
  CHECK(lacks(spans_of({61}), 60) == std::vector<step_span>{{1, 60}});
  CHECK(lacks(spans_of({1, 2, 5, 9}), 9) == std::vector<step_span>{{3, 4}, {6, 8}});
  CHECK(lacks(spans_of({1, 2}), 4) == std::vector<step_span>{{3, 4}});
  CHECK(lacks(first_steps(5), 5).empty());
  // Steps that no checkpoint holds yet are not expected, and do no harm.
  CHECK(lacks(first_steps(7), 5).empty());
  // Of a fine line there is no step 0.
  CHECK(lacks(spans_of({0, 1}), 1).empty());
}

TEST_CASE("stretches in words; of many the first three") {
  CHECK(step_spans().text() == "no step");
  CHECK(spans_of({5}).text() == "step 5");
  CHECK(first_steps(3).text() == "steps 1-3");
  CHECK(spans_of({1, 3, 4}).text() == "steps 1 and 3-4");
  CHECK(spans_of({1, 3, 4, 280}).text() == "steps 1, 3-4 and 280");
  CHECK(spans_of({1, 3, 5, 7}).text() == "steps 1, 3, 5 and 1 more stretch");
  CHECK(spans_of({1, 3, 5, 7, 9}).text() == "steps 1, 3, 5 and 2 more stretches");
}

TEST_CASE("of a file that lacks steps a person learns which, what is lost and what to do") {
  CHECK(missing_steps_text("R/metrics.jsonl", first_steps(9), 9).empty());
  CHECK(missing_steps_text("R/metrics.jsonl", {}, 0).empty());
  const std::string text = missing_steps_text("R/metrics.jsonl", spans_of({3, 61}), 60);
  CAPTURE(text);
  for (const char* part : {"R/metrics.jsonl lacks steps 1-2 and 4-60", "59 of the 60 steps",
                           "Nothing of the training is lost", "put their lines back from a copy"})
    CHECK(contains(text, part));
}

TEST_CASE("an older checkpoint is named with the newest, and the steps that are trained again") {
  CHECK(older_checkpoint_text(278, 278, 279).empty());
  const std::string text = older_checkpoint_text(278, 276, 279);
  CAPTURE(text);
  for (const char* part : {"from checkpoint 276, not from checkpoint 278",
                           "steps 277-279 are trained again", "from a copy"})
    CHECK(contains(text, part));
  CHECK(contains(older_checkpoint_text(2, 1, 2), "step 2 is trained again"));
}

TEST_CASE("what a run goes on from is named, and what it takes again") {
  CHECK(going_on_text(276, 279, 400, 2) ==
        "going on from checkpoint 276, at version 276 of 400, incarnation 2; steps 277-279 are "
        "trained again");
  CHECK(going_on_text(278, 278, 400, 3) ==
        "going on from checkpoint 278, at version 278 of 400, incarnation 3");
  CHECK(going_on_text(0, 1, 400, 2) ==
        "going on from the weights that it began with, at version 0 of 400, incarnation 2; step 1 "
        "is trained again");
}
