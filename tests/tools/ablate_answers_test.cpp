// What the held-out tasks got from an arm, read from an evaluation set and from a search.
#include "support/test.hpp"
#include "tools/ablate/answers.hpp"

using namespace quern;
using namespace quern::test;

namespace {

env::verdict verdict_with(const std::string& task, env::verdict_kind kind,
                          std::int64_t speedup_e2) {
  env::verdict made;
  made.task = task;
  made.kind = kind;
  if (kind == env::verdict_kind::ok) made.speedup_e2 = speedup_e2;
  return made;
}

const env::reward_function reward = env::find_reward("speedup_capped/1").value();

}  // namespace

TEST_CASE("a verdict becomes an answer by the reward that all arms have in common") {
  const auto ok = tools::answer_of(verdict_with("a", env::verdict_kind::ok, 450), reward, 2);
  CHECK(ok == tools::held_out_answer{"a", 2, true, 3.0, 4.5});
  const auto failed =
      tools::answer_of(verdict_with("a", env::verdict_kind::wrong_value, 0), reward, 0);
  CHECK(failed == tools::held_out_answer{"a", 0, true, 0, 0});
  const auto noisy = tools::answer_of(verdict_with("a", env::verdict_kind::noisy, 0), reward, 0);
  CHECK_FALSE(noisy.judged);
}

TEST_CASE("an evaluation set that has no answers of held-out tasks is refused") {
  CHECK(tools::answers_of_evaluation_set(base::json::array(), reward).error().code ==
        base::errc::corrupt);
  CHECK(tools::answers_of_evaluation_set({{"items", base::json::array()}}, reward).error().code ==
        base::errc::not_found);
  const base::json trained = {{"task", "a"}, {"held_out", false}, {"swapped", false}};
  CHECK(tools::answers_of_evaluation_set({{"items", {trained}}}, reward).error().code ==
        base::errc::not_found);
  const base::json torn = {{"task", "a"}, {"held_out", true}, {"swapped", false}};
  CHECK(tools::answers_of_evaluation_set({{"items", {torn}}}, reward).error().code ==
        base::errc::corrupt);
}

TEST_CASE("the first weights' answers to the same prompts are read as the last ones' are") {
  const auto answered = [](std::int64_t speedup_e2) -> base::json {
    return {{"verdict", env::to_json(verdict_with("a", env::verdict_kind::ok, speedup_e2))}};
  };
  const base::json item = {{"task", "a"},
                           {"held_out", true},
                           {"swapped", false},
                           {"first", answered(120)},
                           {"last", answered(250)}};
  const base::json written = {{"items", {item}}};
  const auto first = tools::answers_of_evaluation_set(written, reward, {}, tools::weights::first);
  const auto last = tools::answers_of_evaluation_set(written, reward);
  REQUIRE(first);
  REQUIRE(last);
  CHECK(first->front().speedup == 1.2);
  CHECK(last->front().speedup == 2.5);
}

TEST_CASE("prompts are given to tasks in turn") {
  const auto asked = tools::prompts_of_tasks({"a", "b", "c"}, 7);
  CHECK(asked.at("a") == 3);
  CHECK(asked.at("b") == 2);
  CHECK(asked.at("c") == 2);
  CHECK(tools::prompts_of_tasks({"a", "b"}, 1).size() == 1);
  CHECK(tools::prompts_of_tasks({}, 3).empty());
}

TEST_CASE("a search answers with its last verdicts of each task") {
  std::vector<env::verdict> verdicts;
  for (const std::int64_t speedup_e2 : {100, 110, 120, 130}) {
    verdicts.push_back(verdict_with("a", env::verdict_kind::ok, speedup_e2));
    verdicts.push_back(verdict_with("z", env::verdict_kind::ok, 200));
  }
  verdicts.push_back(verdict_with("b", env::verdict_kind::ok, 140));
  const auto answers =
      tools::last_answers(verdicts, {{"a", 2}, {"b", 2}, {"never sampled", 1}}, reward);
  REQUIRE(answers.size() == 3);
  CHECK(answers[0] == tools::held_out_answer{"a", 0, true, 1.2, 1.2});
  CHECK(answers[1] == tools::held_out_answer{"a", 1, true, 1.3, 1.3});
  CHECK(answers[2] == tools::held_out_answer{"b", 0, true, 1.4, 1.4});
}
