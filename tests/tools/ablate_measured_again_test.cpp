// Right answers of an ablation that were measured over another baseline.
#include "support/test.hpp"
#include "tools/ablate/answers.hpp"

using namespace quern;
using namespace quern::test;

namespace {

env::verdict ok_over(env::baseline_choice baseline, std::int64_t speedup_e2,
                     const std::string& source = "1234") {
  env::verdict made;
  made.task = "softmax@0c";
  made.source = source;
  made.kind = env::verdict_kind::ok;
  made.speedup_e2 = speedup_e2;
  made.baseline.emplace();
  made.baseline->name = env::name_of(baseline);
  return made;
}

base::json item_with(const env::verdict& value, const std::string& source) {
  return {{"task", "softmax@0c"},
          {"held_out", true},
          {"swapped", false},
          {"last", {{"verdict", env::to_json(value)}, {"source", source}}}};
}

}  // namespace

TEST_CASE("right answers alone are measured again, each with its text") {
  env::verdict wrong = ok_over(env::baseline_choice::plain, 100, "5678");
  wrong.kind = env::verdict_kind::wrong_value;
  wrong.speedup_e2.reset();
  const base::json written = {
      {"items",
       {item_with(ok_over(env::baseline_choice::plain, 250), "right"), item_with(wrong, "wrong")}}};
  const auto found = tools::right_answers_of_evaluation_set(written);
  REQUIRE(found);
  REQUIRE(found->size() == 1);
  CHECK(found->front().task == "softmax");
  CHECK(found->front().hash == "1234");
  CHECK(found->front().source == "right");
}

TEST_CASE("a right answer has the speed that was measured again, and none without it") {
  const auto reward = env::find_reward(tools::reward_over("speedup_capped/1@plain", "eager"));
  REQUIRE(reward);
  const env::verdict in_run = ok_over(env::baseline_choice::plain, 250);
  const base::json written = {{"items", {item_with(in_run, "right")}}};
  tools::measured_again again;
  const auto unknown = tools::answers_of_evaluation_set(written, *reward, again);
  REQUIRE(unknown);
  CHECK_FALSE(unknown->front().judged);
  again.add("softmax", "1234", ok_over(env::baseline_choice::eager, 80));
  const auto known = tools::answers_of_evaluation_set(written, *reward, again);
  REQUIRE(known);
  CHECK(known->front() == tools::held_out_answer{"softmax@0c", 0, true, 0.8, 0.8});
}

TEST_CASE("a failure stays one, whatever was measured of another kernel or task") {
  tools::measured_again again;
  again.add("softmax", "1234", ok_over(env::baseline_choice::eager, 80));
  env::verdict wrong = ok_over(env::baseline_choice::plain, 100);
  wrong.kind = env::verdict_kind::wrong_value;
  CHECK(again.of(wrong) == wrong);
  const env::verdict other = ok_over(env::baseline_choice::plain, 250, "9");
  CHECK(again.of(other) == other);
  env::verdict elsewhere = ok_over(env::baseline_choice::plain, 250);
  elsewhere.task = "row_sum@0d";
  CHECK(again.of(elsewhere) == elsewhere);
}

TEST_CASE("a reward is named over another baseline, or over that of the task") {
  CHECK(tools::reward_over("speedup_capped/1", "eager") == "speedup_capped/1@eager");
  CHECK(tools::reward_over("speedup_capped/1@graph", "eager") == "speedup_capped/1@eager");
  CHECK(tools::reward_over("speedup_capped/1@graph", "").compare("speedup_capped/1") == 0);
}
