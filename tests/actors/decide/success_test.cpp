// Warnings of a policy that is being ruined, and none of one that only varies.
#include "actors/decide/success_watch.hpp"
#include "base/random.hpp"
#include "support/test.hpp"

namespace {

using namespace quern;
using namespace quern::actors;
using test::contains;

/// `ok` samples with reward 1, the others wrong in two ways.
step_results results_of(weights_version step, std::int64_t samples, std::int64_t ok) {
  step_results results;
  results.step = step;
  for (std::int64_t i = 0; i < samples; ++i) {
    if (i < ok) {
      results.add("ok", 1);
    } else {
      results.add(i % 4 == 0 ? "wrong_value" : "compile_error", 0);
    }
  }
  return results;
}

}  // namespace

TEST_CASE("a learning rate of 1: good samples of the first weights, then none") {
  success_watch watch;
  std::vector<std::string> said;
  for (weights_version step = 1; step <= 18; ++step) {
    for (const std::string& text : watch.step(results_of(step, 16, step <= 3 ? 7 : 0)))
      said.push_back(text);
    // Four steps without success are a window; three without a reward come before.
    CHECK(said.size() == (step < 6 ? 0U : step < 7 ? 1U : 2U));
  }
  CHECK(contains(said[0],
                 "every reward of steps 4-6 is 0: 48 samples (compile_error 36, wrong_value 12)"));
  CHECK(contains(said[1],
                 "the success rate collapsed: 0 of 64 samples of steps 4-7 are ok (compile_error "
                 "48, wrong_value 16), 21 of 48 of steps 1-3 were"));
  CHECK(contains(said[1], "learner.learning_rate"));
  const auto remarks = watch.remarks();
  REQUIRE(remarks.size() == 2);
  CHECK(contains(remarks[0], "steps 4-18 is 0: 240 samples"));
  CHECK(contains(remarks[1], "0 of 240 samples of steps 4-18"));
}

TEST_CASE("a rate that only varies is no collapse, at any level and size of steps") {
  for (const double rate : {0.02, 0.1, 0.3, 0.6, 0.95}) {
    for (const std::int64_t samples : {8, 16, 64, 500}) {
      base::random_stream random(static_cast<std::uint64_t>(samples), "success test",
                                 {static_cast<std::uint64_t>(rate * 100)});
      success_watch watch;
      for (weights_version step = 1; step <= 1000; ++step) {
        std::int64_t ok = 0;
        for (std::int64_t i = 0; i < samples; ++i)
          ok += random.chance(rate) ? 1 : 0;
        for (const std::string& text : watch.step(results_of(step, samples, ok)))
          CHECK_MESSAGE(!contains(text, "collapsed"), text);
      }
    }
  }
}

TEST_CASE("a level that was not well measured, or halves, is no collapse") {
  success_watch scarce, halved;
  for (weights_version step = 1; step <= 60; ++step) {
    // One in sixteen at first: a window without one is nothing to wonder at.
    CHECK(scarce.step(results_of(step, 16, step <= 8 ? 1 : step % 3 == 0 ? 1 : 0)).empty());
    CHECK(halved.step(results_of(step, 16, step <= 20 ? 8 : 4)).empty());
  }
  CHECK(scarce.remarks().empty());
  CHECK(halved.remarks().empty());
}

TEST_CASE("what came back may collapse again, and the remarks tell both") {
  success_watch watch;
  int collapses = 0;
  for (weights_version step = 1; step <= 60; ++step) {
    const bool ruined = (step > 10 && step <= 20) || step > 40;
    for (const std::string& text : watch.step(results_of(step, 32, ruined ? 1 : 16)))
      collapses += contains(text, "collapsed") ? 1 : 0;
  }
  CHECK(collapses == 2);
  const auto remarks = watch.remarks();
  REQUIRE(remarks.size() == 2);
  CHECK(contains(remarks[0], "it came back later"));
  CHECK_FALSE(contains(remarks[1], "it came back later"));
}

TEST_CASE("steps that it was not told of are in no sentence") {
  success_watch watch;
  for (weights_version step = 1; step <= 20; ++step)
    watch.step(results_of(step, 32, 16));
  for (const weights_version step : {21, 22, 280, 281})
    watch.step(results_of(step, 32, 0));
  const auto remarks = watch.remarks();
  REQUIRE(remarks.size() == 2);
  for (const std::string& remark : remarks) {
    CAPTURE(remark);
    CHECK(contains(remark, "21-22 and 280-281"));
    CHECK_FALSE(contains(remark, "21-281"));
  }
}

TEST_CASE("steps without samples say nothing, and rewards of wrong kernels count") {
  success_watch watch;
  for (weights_version step = 1; step <= 10; ++step)
    CHECK(watch.step(results_of(step, 0, 0)).empty());
  for (weights_version step = 11; step <= 20; ++step) {
    step_results results = results_of(step, 8, 0);
    results.add("slow", -0.5);
    CHECK(watch.step(results).empty());
  }
}

TEST_CASE("results survive metrics.jsonl; of no sample there is no share") {
  const step_results some = results_of(12, 10, 3);
  base::ordered_json line = {{"step", 12}, {"batch", to_json(some)}};
  CHECK(line["batch"]["ok"].get<double>() == doctest::Approx(0.3));
  CHECK(line["batch"]["reward"].get<double>() == doctest::Approx(0.3));
  const auto again = read_step_results(base::json::parse(line.dump()));
  REQUIRE(again);
  CHECK(again->step == 12);
  CHECK(again->samples == 10);
  CHECK(again->rewarded == 3);
  CHECK(again->ok() == 3);
  CHECK(again->verdicts == some.verdicts);
  CHECK(again->reward_sum == doctest::Approx(3));
  CHECK(text_of(some) == "ok  30 %  reward 0.30");
  const base::ordered_json none = to_json(step_results{});
  CHECK(none["ok"].is_null());
  CHECK(none["reward"].is_null());
  CHECK(text_of(step_results{}) == "no samples");
  CHECK_FALSE(read_step_results(base::json::parse(R"({"step": 3, "ok": 0.5})")));
  CHECK_FALSE(read_step_results(base::json::parse(R"([1])")));
  CHECK_FALSE(read_step_results(base::json::parse(R"({"step": 3, "batch": {"samples": "x"}})")));
}
