// Figures of an ablation, by made-up answers.
#include <cmath>

#include "base/random.hpp"
#include "support/test.hpp"
#include "tools/ablate/table.hpp"

using namespace quern;
using namespace quern::test;
using tools::held_out_answer;

namespace {

held_out_answer right(const std::string& task, std::int64_t ordinal, double speedup) {
  return {task, ordinal, true, std::min(3.0, speedup), speedup};
}

held_out_answer wrong(const std::string& task, std::int64_t ordinal) {
  return {task, ordinal, true, 0, 0};
}

/// 20 tasks, 3 seeds, 2 answers each. Tasks are of different worth, answers noisy; `shift` is added
/// to each speed-up.
tools::ablation_arm made_up_arm(const std::string& name, double shift, std::uint64_t stream) {
  tools::ablation_arm arm{name, {}};
  for (std::int64_t seed = 1; seed <= 3; ++seed) {
    tools::arm_result result;
    result.seed = seed;
    base::random_stream random(stream, "made up", {static_cast<std::uint64_t>(seed)});
    for (int task = 0; task < 20; ++task)
      for (std::int64_t ordinal = 0; ordinal < 2; ++ordinal) {
        const double speedup = 0.8 + 0.05 * task + shift + 0.2 * random.normal();
        const std::string id = "task" + std::to_string(task);
        result.answers.push_back(random.chance(0.7) ? right(id, ordinal, std::max(0.1, speedup))
                                                    : wrong(id, ordinal));
      }
    arm.seeds.push_back(std::move(result));
  }
  return arm;
}

}  // namespace

TEST_CASE("Table 5's columns of fixed answers") {
  tools::ablation_arm arm{"+grpo", {}};
  arm.seeds.push_back(
      {1,
       {right("a", 0, 1), right("a", 1, 2), right("b", 0, 4), wrong("b", 1), {"c", 0, false, 0, 0}},
       40,
       8,
       10,
       5});
  arm.seeds.push_back({2, {right("a", 0, 8), wrong("b", 0)}, 44, 8, 12, 5});
  const tools::arm_row row = tools::row_of(arm, 1);
  CHECK(row.speed.attempts == 6);
  CHECK(row.unjudged == 1);
  CHECK(row.speed.successes == 4);
  CHECK(row.speed.mean == doctest::Approx(3.75));
  CHECK(row.speed.geometric_mean == doctest::Approx(std::pow(64.0, 0.25)));
  CHECK(row.speed.max == 8);
  CHECK(row.speed.p25 == doctest::Approx(1.75));
  CHECK(row.speed.p50 == doctest::Approx(3));
  CHECK(row.speed.p75 == doctest::Approx(5));
  CHECK(row.speed.success_share == doctest::Approx(4.0 / 6));
  CHECK(row.speed.faster_share == doctest::Approx(3.0 / 6));
  CHECK(row.reward == doctest::Approx((1 + 2 + 3 + 3) / 6.0));
  CHECK(row.evaluations == 84);
  CHECK(row.shared_evaluations == 16);
  CHECK(row.seconds == 22);
  CHECK(row.shared_seconds == 10);
  for (const auto& [interval, figure] :
       {std::pair{row.mean, row.speed.mean}, std::pair{row.success, row.speed.success_share},
        std::pair{row.faster, row.speed.faster_share}, std::pair{row.mean_reward, row.reward},
        std::pair{row.geometric_mean, row.speed.geometric_mean}}) {
    CHECK(interval.low <= figure);
    CHECK(interval.high >= figure);
    CHECK(interval.low < interval.high);
  }
}

TEST_CASE("the bootstrap is addressed by its seed") {
  const auto arm = made_up_arm("+grpo", 0, 1);
  const auto first = tools::row_of(arm, 1), again = tools::row_of(arm, 1),
             other = tools::row_of(arm, 2);
  CHECK(first.mean_reward.low == again.mean_reward.low);
  CHECK(first.mean_reward.high == again.mean_reward.high);
  CHECK(first.mean_reward.low != other.mean_reward.low);
}

TEST_CASE(
    "two arms of one distribution differ by an interval with 0 in it; a shifted one does not") {
  int false_claims = 0;
  for (std::uint64_t trial = 0; trial < 10; ++trial) {
    const auto plain = made_up_arm("+grpo", 0, 100 + trial);
    const auto same =
        tools::difference_of(plain, made_up_arm("+contrastive:bucket", 0, 200 + trial), 1);
    CHECK(same.pairs == 120);
    false_claims += same.holds() || same.reward_interval.high < 0 ? 1 : 0;
    const auto better =
        tools::difference_of(plain, made_up_arm("+contrastive:bucket", 1.0, 300 + trial), 1);
    CHECK(better.holds());
    REQUIRE(better.ratio);
    CHECK(better.ratio_interval.low > 1);
    const auto worse =
        tools::difference_of(made_up_arm("+contrastive:bucket", 1.0, 300 + trial), plain, 1);
    CHECK_FALSE(worse.holds());
    CHECK(worse.reward_interval.high < 0);
    CHECK(worse.reward == doctest::Approx(-better.reward));
  }
  CHECK(false_claims <= 2);
  // The same answers: nothing to tell apart.
  const auto arm = made_up_arm("+grpo", 0, 5);
  const auto itself = tools::difference_of(arm, arm, 1);
  CHECK(itself.reward == 0);
  CHECK(itself.reward_interval.low == 0);
  CHECK(itself.reward_interval.high == 0);
  CHECK_FALSE(itself.holds());
}

TEST_CASE("a gain by one task or by one seed alone does not hold") {
  // One of 20 tasks is three times as fast with every answer: 120 single answers would look sure.
  auto plain = made_up_arm("+grpo", 0, 7), lucky = plain;
  lucky.name = "+contrastive:bucket";
  for (auto& seed : lucky.seeds)
    for (auto& one : seed.answers)
      if (one.task == "task3") one = right(one.task, one.ordinal, 3);
  CHECK(tools::difference_of(plain, lucky, 1).reward > 0);
  CHECK_FALSE(tools::difference_of(plain, lucky, 1).holds());
  // One of three seeds is.
  auto once = plain;
  for (auto& one : once.seeds[1].answers)
    one = right(one.task, one.ordinal, 3);
  CHECK(tools::difference_of(plain, once, 1).reward > 0);
  CHECK_FALSE(tools::difference_of(plain, once, 1).holds());
}

TEST_CASE("answers are paired by seed, task and ordinal, where both were judged") {
  tools::ablation_arm first{"vanilla", {}}, second{"+grpo", {}};
  first.seeds.push_back({1, {right("a", 0, 1), right("a", 1, 1), {"b", 0, false, 0, 0}}});
  first.seeds.push_back({2, {right("a", 0, 1)}});
  // In another order, with an answer that the first does not have.
  second.seeds.push_back(
      {1, {right("b", 0, 3), wrong("a", 1), right("a", 0, 2), right("c", 0, 3)}});
  second.seeds.push_back({3, {right("a", 0, 3)}});
  const auto made = tools::difference_of(first, second, 1);
  CHECK(made.pairs == 2);
  CHECK(made.reward_first == 1);
  CHECK(made.reward_second == 1);
  CHECK(made.success == doctest::Approx(-0.5));
  // Nothing in common.
  tools::ablation_arm none{"+grpo", {}};
  none.seeds.push_back({9, {right("a", 0, 2)}});
  const auto apart = tools::difference_of(first, none, 1);
  CHECK(apart.pairs == 0);
  CHECK_FALSE(apart.holds());
  CHECK(contains(tools::sentence_of(apart), "no prompt has an answer of both"));
}

TEST_CASE("neighbours are compared, and each contrastive arm with plain GRPO") {
  std::vector<tools::ablation_arm> arms;
  for (const char* name : {"vanilla", "+grpo", "+contrastive:random", "+contrastive:bucket"})
    arms.push_back(made_up_arm(name, 0.1 * static_cast<double>(arms.size()), 11 + arms.size()));
  const auto table = tools::make_table(arms, 1);
  std::vector<std::string> compared;
  for (const auto& one : table.differences)
    compared.push_back(one.first + " " + one.second);
  CHECK(compared == std::vector<std::string>{"vanilla +grpo", "+grpo +contrastive:random",
                                             "+contrastive:random +contrastive:bucket",
                                             "+grpo +contrastive:bucket"});
  const std::string text = tools::to_text(table);
  CAPTURE(text);
  for (const char* part :
       {"+contrastive:bucket", "P75", "above 1.01", "evaluations", "over 120 pairs"})
    CHECK(contains(text, part));
  const auto written = tools::to_json(table);
  CHECK(written["arms"].size() == 4);
  CHECK(written["differences"].size() == 4);
  CHECK(written["arms"][1]["answers"] == 120);
}

TEST_CASE("sentences say whether it holds") {
  const auto plain = made_up_arm("+grpo", 0, 1),
             better = made_up_arm("+contrastive:bucket", 0.6, 2);
  CHECK(contains(tools::sentence_of(tools::difference_of(plain, better, 1)),
                 "+contrastive:bucket is better: it holds."));
  CHECK(contains(tools::sentence_of(tools::difference_of(better, plain, 1)), "+grpo is worse"));
  CHECK(contains(tools::sentence_of(tools::difference_of(plain, plain, 1)),
                 "The interval has 0 in it"));
}

TEST_CASE("arms without a right answer have no speed-up, and no ratio over them is made") {
  tools::ablation_arm nothing{"vanilla", {}}, something{"+grpo", {}};
  nothing.seeds.push_back({1, {wrong("a", 0), wrong("b", 0)}});
  something.seeds.push_back({1, {right("a", 0, 2), right("b", 0, 2)}});
  const auto table = tools::make_table({nothing, something}, 1);
  CHECK(tools::to_json(table)["arms"][0]["speedup"].is_null());
  CHECK(tools::to_json(table)["differences"][0]["ratio"].is_null());
  CHECK(table.differences[0].holds());
  CHECK_FALSE(contains(tools::sentence_of(table.differences[0]), "ratio"));
  CHECK_FALSE(contains(tools::to_text(table), "nan"));
}

TEST_CASE("how much faster answers are is told of the pairs that are right on both sides") {
  tools::ablation_arm slow{"+grpo", {}}, fast{"+contrastive:bucket", {}};
  slow.seeds.push_back({1, {right("a", 0, 2), right("b", 0, 4), wrong("c", 0), right("d", 0, 9)}});
  fast.seeds.push_back({1, {right("a", 0, 4), right("b", 0, 32), right("c", 0, 9), wrong("d", 0)}});
  const tools::arm_difference of = tools::difference_of(slow, fast, 1);
  CHECK(of.pairs == 4);
  CHECK(of.both_right == 2);
  REQUIRE(of.speed_ratio);
  CHECK(*of.speed_ratio == doctest::Approx(4));
  CHECK(of.speed_ratio_interval.low == doctest::Approx(2));
  CHECK(of.speed_ratio_interval.high == doctest::Approx(8));
  CHECK(tools::speed_sentence_of(of) ==
        "Where both are right, in 2 pairs, +contrastive:bucket is x4.00 as fast (2.00 .. 8.00).");
  CHECK(contains(tools::to_text(tools::make_table({slow, fast}, 1)), "is x4.00 as fast"));
  const base::ordered_json written = tools::to_json(of);
  CHECK(written["both_right"] == 2);
  CHECK(written["speed_ratio"] == doctest::Approx(4));
  CHECK(written["speed_ratio_interval"][1] == doctest::Approx(8));
}

TEST_CASE("an arm's answers are as fast as those of its twin, and a faster arm's are not") {
  const auto plain = made_up_arm("+grpo", 0, 1), twin = made_up_arm("twin", 0, 2),
             faster = made_up_arm("faster", 0.6, 2);
  const auto same = tools::difference_of(plain, twin, 1);
  CHECK(same.speed_ratio_interval.low < 1);
  CHECK(same.speed_ratio_interval.high > 1);
  CHECK(tools::difference_of(plain, faster, 1).speed_ratio_interval.low > 1);
}

TEST_CASE("where no pair is right on both sides nothing is said of their speed") {
  tools::ablation_arm one{"+grpo", {}}, other{"+contrastive:bucket", {}};
  one.seeds.push_back({1, {right("a", 0, 2), wrong("b", 0)}});
  other.seeds.push_back({1, {wrong("a", 0), right("b", 0, 2)}});
  const tools::arm_difference of = tools::difference_of(one, other, 1);
  CHECK(of.both_right == 0);
  CHECK_FALSE(of.speed_ratio);
  CHECK(tools::speed_sentence_of(of).empty());
  CHECK(tools::to_json(of)["speed_ratio"].is_null());
  CHECK_FALSE(contains(tools::to_text(tools::make_table({one, other}, 1)), "Where both"));
}

TEST_CASE("what an arm's own run brought is told apart from what its prompts show") {
  tools::ablation_arm plain = made_up_arm("+grpo", 0.5, 3);
  tools::ablation_arm shown = made_up_arm("+contrastive:bucket", 1.0, 4);
  const tools::ablation_arm before = made_up_arm("before", 0, 3);
  for (std::size_t k = 0; k < 3; ++k) {
    plain.seeds[k].before = before.seeds[k].answers;
    // It was as good before it learnt.
    shown.seeds[k].before = shown.seeds[k].answers;
  }
  const tools::ablation_table table =
      tools::make_table({made_up_arm("stage1", 0, 5), plain, shown}, 1);
  REQUIRE(table.gains.size() == 2);
  CHECK(table.gains[0].second == "+grpo");
  CHECK(table.gains[0].holds());
  CHECK(table.gains[0].reward == doctest::Approx(0.35).epsilon(0.2));
  // Better than +grpo, and yet nothing was learnt.
  CHECK(table.differences.back().holds());
  CHECK(table.gains[1].second == "+contrastive:bucket");
  CHECK(table.gains[1].reward == 0);
  CHECK_FALSE(table.gains[1].holds());
  const std::string text = tools::to_text(table);
  CHECK(contains(text, "+grpo against the weights it began with: mean reward"));
  CHECK(tools::to_json(table)["gains"].size() == 2);
}

TEST_CASE("whether one arm's run brought more than another's has an interval of its own") {
  tools::ablation_arm plain = made_up_arm("+grpo", 1.0, 3);
  tools::ablation_arm shown = made_up_arm("+contrastive:bucket", 1.0, 4);
  const tools::ablation_arm low = made_up_arm("before", 0, 3), high = made_up_arm("before", 0.9, 4);
  for (std::size_t k = 0; k < 3; ++k) {
    plain.seeds[k].before = low.seeds[k].answers;
    shown.seeds[k].before = high.seeds[k].answers;
  }
  const tools::ablation_table table = tools::make_table({plain, shown}, 1);
  REQUIRE(table.between_gains.size() == 1);
  const tools::arm_difference& of = table.between_gains[0];
  CHECK(of.pairs == 120);
  CHECK(of.reward_first == doctest::Approx(table.gains[0].reward));
  CHECK(of.reward_second == doctest::Approx(table.gains[1].reward));
  CHECK(of.reward_interval.high < 0);
  CHECK(contains(tools::to_text(table), "What its own run brought: +grpo +0."));
  const base::ordered_json written = tools::to_json(table)["between_gains"][0];
  CHECK(written["gain_first"] == doctest::Approx(of.reward_first));
  CHECK(written["difference_interval"][1] == doctest::Approx(of.reward_interval.high));
  // They began apart: all of the lead was there before.
  REQUIRE(table.before.size() == 1);
  CHECK(table.before[0].first == "+grpo");
  CHECK(table.before[0].holds());
  CHECK(contains(tools::to_text(table), "the weights that the arms' own runs began with"));
  CHECK(tools::to_json(table)["before"][0]["holds"] == true);
  // Of the same run twice the difference is none; of an arm that did not learn there is no gain.
  const auto same = tools::make_table({plain, plain}, 1).between_gains.at(0);
  CHECK(same.reward == 0);
  CHECK(same.reward_interval.high == 0);
  CHECK(tools::make_table({made_up_arm("stage1", 0, 5), plain}, 1).between_gains.empty());
}

TEST_CASE("a gain whose prompt was not judged before or after is left out of the comparison") {
  tools::ablation_arm plain{"+grpo", {}}, shown{"+contrastive:bucket", {}};
  plain.seeds.push_back({1, {right("a", 0, 2), right("b", 0, 2), right("c", 0, 2)}});
  plain.seeds[0].before = {wrong("a", 0), {"b", 0, false, 0, 0}, wrong("c", 0)};
  shown.seeds.push_back({1, {right("a", 0, 3), right("b", 0, 3), {"c", 0, false, 0, 0}}});
  shown.seeds[0].before = {right("a", 0, 2), wrong("b", 0), wrong("c", 0)};
  const auto of = tools::make_table({plain, shown}, 1).between_gains.at(0);
  CHECK(of.pairs == 1);
  CHECK(of.reward_first == 2);
  CHECK(of.reward_second == 1);
  CHECK(of.reward == -1);
}

TEST_CASE("a mean reward is told by its parts: how many are right, and what these are worth") {
  tools::ablation_arm more{"+grpo", {}}, faster{"+contrastive:bucket", {}};
  more.seeds.push_back({1, {right("a", 0, 2), right("b", 0, 2), {"c", 0, false, 0, 0}}});
  more.seeds[0].before = {right("a", 0, 2), wrong("b", 0), right("c", 0, 1)};
  faster.seeds.push_back({1, {right("a", 0, 9), wrong("b", 0)}});
  faster.seeds[0].before = {right("a", 0, 1.5), wrong("b", 0)};
  const tools::ablation_table table = tools::make_table({more, faster}, 1);
  // Task c was not judged on both sides.
  CHECK(table.gains[0].parts_first.right == 0.5);
  CHECK(table.gains[0].parts_second.right == 1);
  CHECK(table.gains[0].parts_first.right_reward == 2);
  CHECK(table.gains[0].parts_second.right_reward == 2);
  CHECK(table.gains[1].parts_first.right == 0.5);
  CHECK(table.gains[1].parts_second.right == 0.5);
  CHECK(table.gains[1].parts_second.right_reward == 3);
  for (const auto& one : table.gains) {
    CHECK(one.reward_first ==
          doctest::Approx(one.parts_first.right * one.parts_first.right_reward));
    CHECK(one.reward_second ==
          doctest::Approx(one.parts_second.right * one.parts_second.right_reward));
  }
  CHECK(contains(tools::to_text(table),
                 "Right: 50.0 % before and 50.0 % after; mean reward of these: 1.500 and 3.000."));
  const base::ordered_json gain = tools::to_json(table)["gains"][1];
  CHECK(gain["success_first"] == 0.5);
  CHECK(gain["success_second"] == 0.5);
  CHECK(gain["right_reward_first"] == 1.5);
  CHECK(gain["right_reward_second"] == 3.0);
  // One that is right without a speed-up has its reward, and the parts still make the mean.
  tools::ablation_arm slow{"+grpo", {}};
  slow.seeds.push_back({1, {{"a", 0, true, 1, 0}, wrong("b", 0)}});
  slow.seeds[0].before = {wrong("a", 0), wrong("b", 0)};
  const auto parts = tools::make_table({slow}, 1).gains.at(0).parts_second;
  CHECK(parts.right == 0.5);
  CHECK(parts.right_reward == 1);
  // Of nothing that is right there is no mean.
  tools::ablation_arm nothing{"+grpo", {}};
  nothing.seeds.push_back({1, {wrong("a", 0)}});
  nothing.seeds[0].before = {wrong("a", 0)};
  CHECK_FALSE(contains(tools::to_text(tools::make_table({nothing}, 1)), "nan"));
}

TEST_CASE("an arm that did not learn has no gain") {
  CHECK(tools::make_table({made_up_arm("stage1", 0, 5)}, 1).gains.empty());
  CHECK_FALSE(
      contains(tools::to_text(tools::make_table({made_up_arm("stage1", 0, 5)}, 1)), "brought"));
}
