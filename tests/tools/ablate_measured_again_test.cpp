// Right answers of an ablation that were measured over another baseline.
#include "support/test.hpp"
#include "tools/ablate/answers.hpp"

using namespace quern;
using namespace quern::test;

namespace {

const std::string task_id = "softmax@0c";

env::verdict ok_over(env::baseline_choice baseline, std::int64_t speedup_e2,
                     const std::string& source = "1234") {
  env::verdict made;
  made.task = task_id;
  made.source = source;
  made.kind = env::verdict_kind::ok;
  made.speedup_e2 = speedup_e2;
  made.baseline.emplace();
  made.baseline->name = env::name_of(baseline);
  return made;
}

env::verdict failed_with(env::verdict_kind kind, const std::string& source = "1234") {
  env::verdict made = ok_over(env::baseline_choice::eager, 100, source);
  made.kind = kind;
  made.speedup_e2.reset();
  return made;
}

base::json item_with(const env::verdict& value, const std::string& source) {
  return {{"task", task_id},
          {"held_out", true},
          {"swapped", false},
          {"last", {{"verdict", env::to_json(value)}, {"source", source}}}};
}

const env::verdict in_run = ok_over(env::baseline_choice::plain, 250);

}  // namespace

TEST_CASE("right answers alone are measured again, each with its text") {
  const base::json written = {
      {"items",
       {item_with(in_run, "right"),
        item_with(failed_with(env::verdict_kind::wrong_value, "5678"), "wrong")}}};
  const auto found = tools::right_answers_of_evaluation_set(written);
  REQUIRE(found);
  REQUIRE(found->size() == 1);
  CHECK(found->front().task == task_id);
  CHECK(found->front().hash == "1234");
  CHECK(found->front().source == "right");
}

TEST_CASE("a right answer has the speed that was measured again, and none without it") {
  const auto reward = env::find_reward(tools::reward_over("speedup_capped/1@plain", "eager"));
  REQUIRE(reward);
  const base::json written = {{"items", {item_with(in_run, "right")}}};
  tools::measured_again again("eager");
  const auto unknown = tools::answers_of_evaluation_set(written, *reward, again);
  REQUIRE(unknown);
  CHECK_FALSE(unknown->front().judged);
  again.add(ok_over(env::baseline_choice::eager, 80));
  const auto known = tools::answers_of_evaluation_set(written, *reward, again);
  REQUIRE(known);
  CHECK(known->front() == tools::held_out_answer{task_id, 0, true, 0.8, 0.8});
}

TEST_CASE("the run's own speed never stands in for one over the baseline that was asked for") {
  // The run's baseline is the one that is asked for, and still its figure is another measurement.
  tools::measured_again again("plain");
  CHECK(again.of(task_id, in_run).kind == env::verdict_kind::noisy);
  CHECK_FALSE(again.of(task_id, in_run).speedup_e2);
  again.add(ok_over(env::baseline_choice::plain, 240));
  CHECK(again.of(task_id, in_run).speedup_e2 == 240);
  // Without a second measurement each verdict of the run counts.
  CHECK(tools::measured_again().of(task_id, in_run) == in_run);
}

TEST_CASE("what fails when it is measured again is not judged: the run found it right") {
  for (const auto kind : {env::verdict_kind::wrong_value, env::verdict_kind::noisy,
                          env::verdict_kind::infra_error, env::verdict_kind::timeout}) {
    tools::measured_again again("eager");
    again.add(failed_with(kind));
    CHECK(again.of(task_id, in_run).kind == env::verdict_kind::noisy);
  }
}

TEST_CASE("a failure stays one, and other kernels and tasks are not known") {
  tools::measured_again again("eager");
  again.add(ok_over(env::baseline_choice::eager, 80));
  const env::verdict wrong = failed_with(env::verdict_kind::wrong_value);
  CHECK(again.of(task_id, wrong) == wrong);
  CHECK(again.of(task_id, ok_over(env::baseline_choice::plain, 250, "9")).kind ==
        env::verdict_kind::noisy);
  // The same name with other content.
  CHECK(again.of("softmax@0d", in_run).kind == env::verdict_kind::noisy);
}

TEST_CASE("of two measurements of one kernel the first counts") {
  tools::measured_again again("eager");
  again.add(ok_over(env::baseline_choice::eager, 80));
  again.add(ok_over(env::baseline_choice::eager, 300));
  CHECK(again.of(task_id, in_run).speedup_e2 == 80);
}

TEST_CASE("a reward is named over another baseline, or over that of the task") {
  CHECK(tools::reward_over("speedup_capped/1", "eager") == "speedup_capped/1@eager");
  CHECK(tools::reward_over("speedup_capped/1@graph", "eager") == "speedup_capped/1@eager");
  CHECK(tools::reward_over("speedup_capped/1@graph", "") == "speedup_capped/1");
}
