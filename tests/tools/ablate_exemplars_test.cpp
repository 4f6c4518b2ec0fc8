// What an arm makes of the kernels that prompts show, read from an evaluation set, and the control
// beside it.
#include "support/test.hpp"
#include "tools/ablate/exemplar_table.hpp"

using namespace quern;
using namespace quern::test;

namespace {

const env::reward_function capped = env::find_reward("speedup_capped/1").value();

/// Speed-up in 1/100; 0: a wrong kernel.
base::json item_of(const std::string& task, bool held_out, bool swapped, std::int64_t speedup_e2,
                   const std::string& source, std::int64_t best_own) {
  env::verdict given;
  given.task = task;
  given.source = source;
  given.kind = speedup_e2 > 0 ? env::verdict_kind::ok : env::verdict_kind::wrong_value;
  if (speedup_e2 > 0) given.speedup_e2 = speedup_e2;
  base::json shown = base::json::array();
  if (best_own > 0) shown = {"slow", "fast"};
  return {{"task", task},
          {"held_out", held_out},
          {"exemplars", best_own > 0},
          {"swapped", swapped},
          {"shown", std::move(shown)},
          {"best_own", best_own},
          {"last", {{"verdict", env::to_json(given)}}}};
}

tools::arm_result result_of(std::int64_t seed, const base::json& items) {
  const base::json written = {{"items", items}};
  tools::arm_result made;
  made.seed = seed;
  made.answers = tools::answers_of_evaluation_set(written, capped).value();
  made.shown = tools::shown_answers_of_evaluation_set(written, capped).value();
  return made;
}

/// Of one seed: each of ten tasks is answered `own` with its kernels, `swapped` with others.
tools::arm_result even_result(std::int64_t seed, std::int64_t own, std::int64_t swapped) {
  base::json items = base::json::array();
  for (int task = 0; task < 10; ++task) {
    const std::string id = "task" + std::to_string(task);
    items.push_back(item_of(id, true, false, own, "own", 150));
    items.push_back(item_of(id, true, true, swapped, "swapped", 150));
    items.push_back(item_of(id, true, false, 100, "plain", 0));
  }
  return result_of(seed, items);
}

}  // namespace

TEST_CASE("answers to prompts that showed kernels are read with what was shown") {
  const base::json items = {
      item_of("a", true, false, 300, "new", 200), item_of("a", true, true, 0, "wrong", 200),
      item_of("a", true, false, 200, "fast", 200), item_of("a", true, false, 900, "plain", 0),
      item_of("b", false, false, 900, "trained", 200)};
  const auto read = result_of(1, items);
  // The control is no answer of the arm.
  CHECK(read.answers.size() == 3);
  REQUIRE(read.shown.size() == 3);
  CHECK_FALSE(read.shown[0].swapped);
  CHECK(read.shown[0].answer == tools::held_out_answer{"a", 0, true, 3, 3});
  CHECK(read.shown[0].use.best_e2 == 200);
  CHECK_FALSE(read.shown[0].use.copies);
  CHECK(read.shown[1].swapped);
  CHECK(read.shown[1].answer.ordinal == 0);
  CHECK(read.shown[2].answer.ordinal == 1);
  CHECK(read.shown[2].use.copies);
  const auto rows = tools::exemplar_rows({{"+contrastive:bucket", {read}}}, 1);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].own.use.judged() == 2);
  CHECK(rows[0].own.use.improved() == doctest::Approx(0.5));
  CHECK(rows[0].own.use.copied() == doctest::Approx(0.5));
  CHECK(rows[0].own.success == 1);
  CHECK(rows[0].own.reward == doctest::Approx(2.5));
  CHECK(rows[0].swapped.use.judged() == 1);
  CHECK(rows[0].swapped.success == 0);
  REQUIRE(rows[0].difference);
  CHECK(rows[0].difference->pairs == 1);
}

TEST_CASE("kernels of another task are a control: it differs where the shown ones are read") {
  const tools::ablation_arm reads{"+contrastive:bucket",
                                  {even_result(1, 200, 120), even_result(2, 210, 110)}};
  const tools::ablation_arm ignores{"+contrastive:random",
                                    {even_result(1, 130, 130), even_result(2, 140, 140)}};
  tools::ablation_arm without{"+grpo", {even_result(1, 130, 130)}};
  without.seeds[0].shown.clear();
  const auto rows = tools::exemplar_rows({without, ignores, reads}, 1);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].name == "+contrastive:random");
  REQUIRE(rows[0].difference);
  CHECK_FALSE(rows[0].difference->holds());
  CHECK(rows[0].difference->reward == 0);
  REQUIRE(rows[1].difference);
  CHECK(rows[1].difference->pairs == 20);
  CHECK(rows[1].difference->holds());
  CHECK(rows[1].own.use.improved() == 1);
  CHECK(rows[1].swapped.use.improved() == 0);
  const std::string text = tools::to_text(rows);
  CHECK(contains(text, "another task"));
  CHECK(contains(text, "(+0.800 .. +1.000). What is shown is used."));
  CHECK(contains(text, "(+0.000 .. +0.000). That what is shown helps does not hold."));
  const auto written = tools::to_json(rows);
  CHECK(written[1]["own"]["improved"] == 1.0);
  CHECK(written[1]["difference"]["holds"] == true);
  CHECK(written[0]["difference"]["holds"] == false);
  CHECK(tools::to_text(tools::exemplar_rows({without}, 1)).empty());
}

TEST_CASE("without the control there is a row and no difference") {
  base::json items = base::json::array();
  items.push_back(item_of("a", true, false, 300, "new", 200));
  const auto rows = tools::exemplar_rows({{"+contrastive:island", {result_of(1, items)}}}, 1);
  REQUIRE(rows.size() == 1);
  CHECK_FALSE(rows[0].difference);
  CHECK_FALSE(contains(tools::to_text(rows), "another task"));
  CHECK(tools::to_json(rows)[0]["swapped"].is_null());
}
