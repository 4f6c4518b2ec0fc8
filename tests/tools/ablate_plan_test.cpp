// Which runs an ablation is made of, what they share, and what of them is left to do.
#include <set>

#include "support/test.hpp"
#include "tools/ablate/plan.hpp"

using namespace quern;
using namespace quern::test;
using tools::plan_state;

namespace {

actors::stage_plan stage_of_kind(const std::string& kind, std::int64_t steps) {
  actors::stage_plan made{kind, {}};
  made.config.stage = kind;
  made.config.learner.steps = steps;
  made.config.algorithm.group_size = 4;
  made.config.algorithm.groups_per_step = 2;
  return made;
}

std::vector<actors::stage_plan> three_stages() {
  std::vector<actors::stage_plan> stages = {
      stage_of_kind("sft", 100), stage_of_kind("self_train", 3), stage_of_kind("contrastive", 6)};
  stages[1].config.policy.model.clear();
  stages[1].config.algorithm.reward = "correct/1";
  stages[1].config.tasks.count = 5;
  stages[2].config.policy.model.clear();
  return stages;
}

std::vector<actors::stage_plan> one_stage() {
  return {stage_of_kind("contrastive", 6)};
}

base::expected<tools::ablation_plan> plan_of(const std::vector<actors::stage_plan>& stages,
                                             const std::string& arms, const std::string& seeds,
                                             std::int64_t budget = 0,
                                             const std::string& vanilla = "",
                                             const std::string& stage1 = "") {
  return tools::plan_ablation(stages, tools::parse_arms(arms).value(),
                              tools::parse_seeds(seeds).value(), budget,
                              {"/held_out", vanilla, stage1});
}

std::vector<std::string> names_of(const tools::ablation_plan& plan) {
  std::vector<std::string> names;
  for (const tools::planned_run& run : plan.runs)
    names.push_back(run.name);
  return names;
}

const tools::planned_run& run_called(const tools::ablation_plan& plan, const std::string& name) {
  for (const tools::planned_run& run : plan.runs)
    if (run.name == name) return run;
  FAIL("no run " << name);
  return plan.runs.front();
}

void check_refused(const base::expected<tools::ablation_plan>& made,
                   const std::vector<std::string>& parts) {
  REQUIRE_FALSE(made);
  CAPTURE(made.error().message);
  CHECK(made.error().code == base::errc::invalid_argument);
  for (const std::string& part : parts)
    CHECK(contains(made.error().message, part.c_str()));
}

}  // namespace

TEST_CASE("arms and seeds are read from lists, or refused by name") {
  CHECK(tools::parse_arms("+grpo, +contrastive:bucket").value() ==
        std::vector<std::string>{"+grpo", "+contrastive:bucket"});
  CHECK(tools::parse_seeds("3, 1").value() == std::vector<std::int64_t>{3, 1});
  CHECK(tools::parse_seeds("0,9000000000000000").has_value());
  for (const char* bad : {"", "grpo", "+contrastive", "+grpo,,vanilla", "+grpo,+grpo"})
    CHECK_FALSE(tools::parse_arms(bad));
  for (const char* bad : {"", "a", "1,", "1 2", "-1", "1.5", "9000000000000001", "1,1", "1-3"})
    CHECK_FALSE(tools::parse_seeds(bad));
  CHECK(contains(tools::parse_arms("grpo").error().message, "'grpo' is no arm: choose among"));
  CHECK(contains(tools::parse_seeds("1,x").error().message, "'x' is no seed"));
  std::string many = "0";
  for (int seed = 1; seed < 100; ++seed)
    many += "," + std::to_string(seed);
  CHECK(tools::parse_seeds(many).has_value());
  CHECK(contains(tools::parse_seeds(many + ",100").error().message, "101 seeds, at most 100"));
}

TEST_CASE("folders of arms are different and have no characters that mean something") {
  std::set<std::string> folders;
  for (const std::string_view arm : tools::arm_names) {
    const std::string folder = tools::arm_folder(arm);
    CHECK(folder.find_first_of("+:/ ") == std::string::npos);
    CHECK_FALSE(folder == "shared");
    folders.insert(folder);
  }
  CHECK(folders.size() == std::size(tools::arm_names));
}

TEST_CASE("early stages are made once for each seed, before the arms that need them") {
  const auto plan = plan_of(three_stages(), "stage1,stage1+2,+grpo,+contrastive:island", "1,2");
  REQUIRE(plan);
  CHECK(names_of(*plan) ==
        std::vector<std::string>{"shared/seed-1/sft", "stage1/seed-1", "shared/seed-2/sft",
                                 "stage1/seed-2", "shared/seed-1/self_train", "stage1-2/seed-1",
                                 "shared/seed-2/self_train", "stage1-2/seed-2", "grpo/seed-1",
                                 "grpo/seed-2", "contrastive-island/seed-1",
                                 "contrastive-island/seed-2"});
  for (std::size_t k = 0; k < plan->runs.size(); ++k) {
    const tools::planned_run& run = plan->runs[k];
    CHECK(run.config.run.seed == run.seed);
    if (!run.begins_with) continue;
    CHECK(*run.begins_with < k);
    CHECK(plan->runs[*run.begins_with].seed == run.seed);
    CHECK(run.config.policy.model.empty());
  }
  const std::size_t grpo = plan->run_of("+grpo", 2);
  REQUIRE(plan->runs[grpo].name == "grpo/seed-2");
  const auto before = plan->before(grpo);
  REQUIRE(before.size() == 2);
  CHECK(plan->runs[before[0]].name == "shared/seed-2/sft");
  CHECK(plan->runs[before[1]].name == "shared/seed-2/self_train");
  CHECK(plan->before(plan->run_of("stage1", 1)).size() == 1);
}

TEST_CASE("arms differ in what they are about, and in nothing that an answer is measured by") {
  const auto plan =
      plan_of(three_stages(), "stage1,evolve,stage1+2,+grpo,+contrastive:random", "1", 80);
  REQUIRE(plan);
  CHECK(plan->reward == "speedup_capped/1");
  const auto& contrastive = run_called(*plan, "contrastive-random/seed-1");
  CHECK(contrastive.config.replay.exemplars == "random");
  CHECK(contrastive.config.replay.without_exemplars_share == 0.5);
  CHECK(contrastive.config.learner.steps == 10);
  CHECK(contrastive.evaluations == 80);
  const auto& grpo = run_called(*plan, "grpo/seed-1");
  CHECK(grpo.config.replay.exemplars == "none");
  CHECK(grpo.config.replay.without_exemplars_share == 1);
  CHECK(grpo.config.learner.steps == 10);
  const auto& more = run_called(*plan, "stage1-2/seed-1");
  CHECK(more.config.stage == "self_train");
  CHECK(more.config.learner.steps == 10);
  const auto& shared = run_called(*plan, "shared/seed-1/self_train");
  CHECK(shared.config.learner.steps == 3);
  CHECK(shared.evaluations == 24);
  CHECK(shared.config.tasks.count == 5);
  CHECK_FALSE(shared.config.observe.evaluation_set);
  // Weights that stay: the evaluation set of the policy as it begins.
  const auto& still = run_called(*plan, "stage1/seed-1");
  CHECK(still.config.learner.learning_rate == 0);
  CHECK(still.config.learner.steps == 1);
  CHECK(still.evaluations == 0);
  // As many evaluations as the other arms have spent at their end.
  const auto& search = run_called(*plan, "evolve/seed-1");
  CHECK(search.config.stage == "search");
  CHECK(search.config.run.budget_evaluations == 80 + 24);
  CHECK(search.config.tasks.suite == "/held_out");
  CHECK(plan->runs[*search.begins_with].name == "shared/seed-1/sft");
  for (const tools::planned_run* one : {&contrastive, &grpo, &more, &still}) {
    CHECK(one->config.observe.evaluation_set);
    CHECK(one->config.observe.evaluation_set_held_out ==
          contrastive.config.observe.evaluation_set_held_out);
    CHECK(one->config.tasks.count == contrastive.config.tasks.count);
    CHECK(one->config.tasks.held_out_count == contrastive.config.tasks.held_out_count);
    CHECK(one->config.env.time_budget_s == contrastive.config.env.time_budget_s);
  }
}

TEST_CASE("without early stages every arm begins with policy.model, at the file's own budget") {
  const auto plan = plan_of(one_stage(), "vanilla,evolve,+grpo,+contrastive:bucket", "4");
  REQUIRE(plan);
  CHECK(plan->budget == 48);
  CHECK(plan->runs.size() == 4);
  for (const tools::planned_run& run : plan->runs) {
    CHECK_FALSE(run.begins_with);
    CHECK(run.config.policy.model == "policy/demo");
  }
  CHECK(run_called(*plan, "evolve/seed-4").config.run.budget_evaluations == 48);
}

TEST_CASE("a policy of its own for arm vanilla makes policy.model that of stage 1") {
  const std::string arms = "vanilla,stage1,evolve,+grpo";
  const auto plan = plan_of(one_stage(), arms, "4", 0, "/first_weights");
  REQUIRE(plan);
  CHECK(run_called(*plan, "vanilla/seed-4").config.policy.model == "/first_weights");
  for (const char* name : {"stage1/seed-4", "evolve/seed-4", "grpo/seed-4"})
    CHECK(run_called(*plan, name).config.policy.model == "policy/demo");
  CHECK(run_called(*plan, "stage1/seed-4").config.learner.learning_rate == 0);
  // Beside stage sft, which makes a policy anew, it is the policy before that.
  const auto with_sft = plan_of(three_stages(), "vanilla,stage1", "4", 0, "/first_weights");
  REQUIRE(with_sft);
  const auto& vanilla = run_called(*with_sft, "vanilla/seed-4");
  CHECK(vanilla.config.policy.model == "/first_weights");
  CHECK_FALSE(vanilla.begins_with);
  CHECK(run_called(*with_sft, "stage1/seed-4").begins_with);
}

TEST_CASE("a fine-tuned policy takes the place of stage sft") {
  const std::string arms = "stage1,evolve,stage1+2,+grpo";
  const auto plan = plan_of(three_stages(), arms, "4", 0, "", "/tuned");
  REQUIRE(plan);
  CHECK(names_of(*plan) == std::vector<std::string>{"stage1/seed-4", "evolve/seed-4",
                                                    "shared/seed-4/self_train", "stage1-2/seed-4",
                                                    "grpo/seed-4"});
  for (const char* name : {"stage1/seed-4", "evolve/seed-4", "shared/seed-4/self_train"})
    CHECK(run_called(*plan, name).config.policy.model == "/tuned");
  CHECK(run_called(*plan, "grpo/seed-4").begins_with);
  const auto alone = plan_of(one_stage(), "stage1,+grpo", "4", 0, "", "/tuned");
  REQUIRE(alone);
  CHECK(run_called(*alone, "grpo/seed-4").config.policy.model == "/tuned");
  check_refused(plan_of(three_stages(), "vanilla", "1", 0, "", "/tuned"),
                {"vanilla", "--vanilla FOLDER"});
  CHECK(plan_of(three_stages(), "vanilla,stage1", "1", 0, "/first_weights", "/tuned"));
}

TEST_CASE("what a configuration lacks for an arm is refused with what to do") {
  check_refused(plan_of(one_stage(), "stage1", "1"),
                {"stage1", "vanilla", "add that stage", "--stage1 FOLDER"});
  check_refused(plan_of(one_stage(), "stage1+2", "1"), {"stage1+2", "self_train"});
  check_refused(plan_of(three_stages(), "vanilla", "1"),
                {"vanilla", "--vanilla FOLDER", "say stage1"});
  check_refused(plan_of({stage_of_kind("sft", 3)}, "stage1", "1"), {"no stage contrastive"});
  check_refused(plan_of({stage_of_kind("search", 3)}, "vanilla", "1"), {"stage search"});
  check_refused(
      plan_of({stage_of_kind("contrastive", 3), stage_of_kind("contrastive", 3)}, "vanilla", "1"),
      {"contrastive twice"});
  check_refused(
      plan_of({stage_of_kind("contrastive", 3), stage_of_kind("self_train", 3)}, "vanilla", "1"),
      {"put contrastive last"});
  for (const std::int64_t budget : {1, 7, 9, 50})
    check_refused(plan_of(one_stage(), "+grpo", "1", budget),
                  {"--budget is " + std::to_string(budget), "8 evaluations", "multiple"});
  check_refused(plan_of(one_stage(), "+grpo", "1", 50), {"48 or 56"});
  // Nothing is trained for these: any budget is one.
  CHECK(plan_of(one_stage(), "vanilla,evolve", "1", 50));
  auto stages = one_stage();
  stages[0].config.tasks.held_out_count = 0;
  check_refused(plan_of(stages, "+grpo", "1"), {"tasks.held_out_count is 0"});
  stages = one_stage();
  stages[0].config.observe.evaluation_set_held_out = 0;
  check_refused(plan_of(stages, "+grpo", "1"), {"observe.evaluation_set_held_out is 0"});
  stages = one_stage();
  stages[0].config.tasks.source = "suite";
  CHECK(plan_of(stages, "+grpo", "1"));
  check_refused(plan_of(stages, "evolve", "1"), {"evolve", "leave the arm out"});
}

TEST_CASE("what is left to do follows from what is on the disk") {
  const auto plan = plan_of(three_stages(), "+grpo,+contrastive:bucket", "1");
  REQUIRE(plan);
  REQUIRE(plan->runs.size() == 4);
  using enum plan_state;
  const auto left = [&](std::vector<plan_state> states) { return tools::runs_left(*plan, states); };
  CHECK(left({missing, missing, missing, missing}).value() == std::vector<std::size_t>{0, 1, 2, 3});
  CHECK(left({complete, begun, missing, missing}).value() == std::vector<std::size_t>{1, 2, 3});
  CHECK(left({complete, complete, complete, begun}).value() == std::vector<std::size_t>{3});
  CHECK(left({complete, complete, complete, complete}).value().empty());
  const auto lost = left({complete, missing, complete, missing});
  REQUIRE_FALSE(lost);
  CHECK(lost.error().code == base::errc::not_found);
  CHECK(contains(lost.error().message, "put shared/seed-1/self_train back"));
}

TEST_CASE("a run that is there with other settings is not taken for the planned one") {
  const auto plan = plan_of(three_stages(), "+grpo", "1");
  REQUIRE(plan);
  const tools::planned_run& run = run_called(*plan, "grpo/seed-1");
  actors::run_config there = run.config;
  there.run.folder = "/elsewhere";
  there.observe.log_level = "warning";
  there.policy.model = "/shared/model";
  // Where a run is made is no difference between arms.
  there.env.gpus = "3";
  there.learner.devices = "3";
  there.actors.generator_gpu = 3;
  CHECK(tools::check_same_run(run, there));
  there.learner.steps = 7;
  const auto other = tools::check_same_run(run, there);
  REQUIRE_FALSE(other);
  CHECK(contains(other.error().message, "learner.steps is 7 there and 6 here"));
  CHECK(contains(other.error().message, "another --out"));
  // Without an earlier run the policy is a setting as any other.
  const auto alone = plan_of(one_stage(), "+grpo", "1");
  actors::run_config with_other_policy = alone->runs[0].config;
  with_other_policy.policy.model = "/other";
  CHECK_FALSE(tools::check_same_run(alone->runs[0], with_other_policy));
}
