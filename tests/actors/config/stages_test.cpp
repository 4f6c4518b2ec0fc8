// Chains of stages: what each is made of, where it lies, what is refused.
#include "actors/config/stages.hpp"

#include "base/file.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::actors;

namespace {

constexpr std::string_view three =
    "quern_config: 2\n"
    "run: {name: chain, seed: 5}\n"
    "learner: {threads: 2, steps: 7}\n"
    "stages:\n"
    "  - stage: sft\n"
    "    learner: {steps: 100, schedule: cosine}\n"
    "  - stage: self_train\n"
    "  - {stage: contrastive, env: {time_budget_s: 0.5}, learner: {steps: 9}}\n";

struct chain_fixture {
  base::temp_folder folder = std::move(base::temp_folder::make().value());
  std::filesystem::path file = folder.path() / "chain.yaml";

  base::expected<std::vector<stage_plan>> load(std::string_view text,
                                               const std::vector<std::string>& settings = {}) {
    REQUIRE(base::write_file_atomic(file, text));
    return load_stages(file, settings);
  }
  std::string refusal(std::string_view stages) {
    const auto loaded = load("quern_config: 2\nstages: " + std::string(stages) + "\n");
    REQUIRE_FALSE(loaded.has_value());
    return loaded.error().message;
  }
};

bool names_it(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a stage is what all have in common and what it has of its own") {
  chain_fixture f;
  const auto stages = f.load(three).value();
  REQUIRE(stages.size() == 3);
  CHECK(stages[0].name == "1-sft");
  CHECK(stages[1].name == "2-self_train");
  CHECK(stages[2].name == "3-contrastive");
  for (const auto& stage : stages) {
    CHECK(stage.config.run.seed == 5);
    CHECK(stage.config.learner.threads == 2);
  }
  CHECK(stages[0].config.learner.steps == 100);
  CHECK(stages[0].config.learner.schedule == "cosine");
  CHECK(stages[1].config.learner.steps == 7);
  CHECK(stages[1].config.learner.schedule == "constant");
  // Defaults that follow from the stage follow from each.
  CHECK(stages[1].config.algorithm.preset == "reinforce");
  CHECK(stages[2].config.algorithm.preset == "group_normalised");
  CHECK(stages[2].config.env.time_budget_s == 0.5);
  CHECK(stages[1].config.env.time_budget_s == 0.3);
}

TEST_CASE("settings are for all stages or for one") {
  chain_fixture f;
  const auto stages =
      f.load(three, {"run.seed=8", "sft.learner.steps=3", "contrastive.env.evaluators=2"}).value();
  CHECK(stages[0].config.learner.steps == 3);
  CHECK(stages[2].config.learner.steps == 9);
  CHECK(stages[1].config.env.evaluators == 1);
  CHECK(stages[2].config.env.evaluators == 2);
  CHECK(stages[1].config.run.seed == 8);
  CHECK_FALSE(f.load(three, {"sft.learner.stepps=3"}));
}

TEST_CASE("a stage after the first has no policy of its own, unless one is set") {
  chain_fixture f;
  const auto model_of = [&](const std::vector<std::string>& settings, std::size_t stage) {
    return f.load(three, settings).value()[stage].config.policy.model;
  };
  const std::string first = run_config{}.policy.model;
  CHECK(model_of({}, 0) == first);
  CHECK(model_of({}, 1).empty());
  CHECK(model_of({}, 2).empty());
  CHECK(model_of({"policy.model=a"}, 2) == "a");
  CHECK(model_of({"contrastive.policy.model=a"}, 2) == "a");
  CHECK(model_of({"contrastive.policy.model=a"}, 1).empty());
  // What all have in common is what the first begins with.
  const auto common = f.load(
                           "quern_config: 2\npolicy: {model: a}\nstages:\n"
                           "  - stage: self_train\n  - stage: contrastive\n")
                          .value();
  CHECK(common[0].config.policy.model == "a");
  CHECK(common[1].config.policy.model.empty());
  // It is written and read back, and goes on without one.
  const auto chain = f.folder.path() / "kept";
  REQUIRE(create_chain(chain, common));
  CHECK(read_chain(chain).value()[1].config.policy.model.empty());
}

TEST_CASE("a stage that has begun and is gone is missed, not trained anew") {
  chain_fixture f;
  const auto stages = f.load(three).value();
  const auto chain = f.folder.path() / "kept";
  REQUIRE(create_chain(chain, stages));
  const auto begin = [&](const std::string& name) {
    REQUIRE(base::make_folders(chain / name));
    REQUIRE(base::write_file_atomic(chain / name / "meta.json", "{}"));
    REQUIRE(mark_begun(chain, name));
  };
  const auto said = [&] {
    const auto checked = check_begun_stages(chain, stages);
    return checked ? "" : checked.error().message;
  };
  CHECK(said().empty());
  begin("1-sft");
  CHECK(said().empty());
  std::filesystem::remove_all(chain / "1-sft");
  CHECK(names_it(said(), "stage 1-sft was begun, but its run is not there"));
  CHECK(names_it(said(), (chain / "stages/1-sft.begun").string()));
  // Also in a chain that has no marks.
  begin("2-self_train");
  std::filesystem::remove(chain / "stages/1-sft.begun");
  CHECK(names_it(said(), "stage 2-self_train has begun, but the run of stage 1-sft"));
  CHECK(names_it(said(), (chain / "1-sft").string()));
  // Marks are no stages.
  CHECK(read_chain(chain).value().size() == 3);
}

TEST_CASE("a file without stages is one") {
  chain_fixture f;
  const auto stages = f.load("quern_config: 2\nstage: self_train\n").value();
  REQUIRE(stages.size() == 1);
  CHECK(stages[0].name.empty());
  CHECK(stages[0].config.stage == "self_train");
}

TEST_CASE("what cannot be a chain is refused, saying where") {
  chain_fixture f;
  CHECK(names_it(f.refusal("[]"), "a list of stages"));
  CHECK(names_it(f.refusal("{stage: sft}"), "a list of stages"));
  CHECK(names_it(f.refusal("[{learner: {steps: 2}}]"), "number 1 has no `stage"));
  CHECK(names_it(f.refusal("[{learner: {steps: 2}}]"), "sft, self_train, contrastive"));
  CHECK(
      names_it(f.refusal("[{stage: sft, learner: {steps: 2, steps: 3}}]"), "'steps' stands twice"));
  CHECK(names_it(f.refusal("[{stage: sfft}]"), "did you mean"));
  CHECK(names_it(f.refusal("[{stage: sft, run: {name: a}}]"), "run.name"));
  CHECK(names_it(f.refusal("[{stage: sft}, {stage: contrastive, policy: {model: a}}]"),
                 "number 2 has policy.model"));
  CHECK(names_it(f.refusal("[{stage: sft}, {stage: contrastive, learner: {stepps: 1}}]"),
                 "learner.steps"));
}

TEST_CASE("stages that cannot follow each other, or have nothing to do, are refused") {
  chain_fixture f;
  for (const char* list : {"[{stage: contrastive}, {stage: sft}]", "[{stage: sft}, {stage: sft}]"})
    CHECK(names_it(f.refusal(list), "number 2 is sft"));
  CHECK(f.load("quern_config: 2\nstages: [{stage: self_train}, {stage: self_train}]\n"));
  CHECK(names_it(f.refusal("[{stage: sft}, {stage: self_train, learner: {steps: 0}}]"),
                 "number 2 (self_train): learner.steps is 0"));
  CHECK(names_it(f.refusal("[{stage: search}, {stage: contrastive}]"), "number 1 is search"));
  const auto said = [&](std::string_view text, const std::vector<std::string>& settings = {}) {
    const auto loaded = f.load(text, settings);
    REQUIRE_FALSE(loaded.has_value());
    CHECK(loaded.error().code == base::errc::invalid_argument);
    return loaded.error().message;
  };
  CHECK(names_it(said("quern_config: 2\nstage: sft\nstages: [{stage: sft}]\n"), "side by side"));
  CHECK(names_it(said("quern_config: 2\nlearner: {}\nlearner: {}\nstages: [{stage: sft}]\n"),
                 "line 3: key 'learner' stands twice"));
  CHECK(names_it(said("quern_config: 2\nstage: sft\n", {"sft.learner.steps=7"}),
                 "there is one stage only: say learner.steps=7"));
  CHECK(names_it(said(three, {"self_train.learner.steps=0"}), "learner.steps is 0"));
  CHECK(names_it(said("quern_config: 2\nstages: [{stage: self_train}, {stage: contrastive}]\n",
                      {"sft.learner.steps=7"}),
                 "there is no stage sft; there are self_train, contrastive"));
}

TEST_CASE("settings of a stage that has not begun are kept, but for what belongs to the chain") {
  chain_fixture f;
  auto stages = f.load(three).value();
  const auto chain = f.folder.path() / "chain";
  REQUIRE(create_chain(chain, stages));
  CHECK(check_settings(stages, {"sft.learner.steps=7", "run.seed=2"}));
  stages.erase(stages.begin());
  CHECK_FALSE(check_settings(stages, {"sft.learner.steps=7"}));
  stage_plan& last = stages.back();
  for (const char* setting : {"learner.stepz=4", "learner.steps=0", "learner.steps=-1", "stage=sft",
                              "run.folder=a", "run.name=a", "policy.model=a"}) {
    CAPTURE(setting);
    CHECK_FALSE(change_plan(last, {"run.seed=6", setting}));
    CHECK(last.config.run.seed == 5);
  }
  REQUIRE(change_plan(last, {"learner.steps=11", "run.seed=6"}));
  REQUIRE(write_plan(chain, last));
  const auto again = read_chain(chain).value();
  CHECK(again[2].config.learner.steps == 11);
  CHECK(again[2].config.run.seed == 6);
  CHECK(again[1].config.run.seed == 5);
}

TEST_CASE("a chain is kept whole and found again") {
  chain_fixture f;
  const auto stages = f.load(three).value();
  const auto chain = f.folder.path() / "chain";
  CHECK_FALSE(is_chain(chain));
  REQUIRE(create_chain(chain, stages));
  CHECK(is_chain(chain));
  CHECK_FALSE(create_chain(chain, stages));
  const auto again = read_chain(chain).value();
  REQUIRE(again.size() == 3);
  for (std::size_t k = 0; k < 3; ++k) {
    CHECK(again[k].name == stages[k].name);
    CHECK(again[k].config.learner.steps == stages[k].config.learner.steps);
    CHECK(again[k].config.algorithm.reward == stages[k].config.algorithm.reward);
  }
  CHECK_FALSE(present_stage(chain));
  REQUIRE(base::make_folders(chain / "1-sft"));
  REQUIRE(base::write_file_atomic(chain / "1-sft/meta.json", "{}"));
  CHECK(present_stage(chain).value() == chain / "1-sft");
  CHECK(present_stage(chain / "1-sft").value() == chain / "1-sft");
  CHECK_FALSE(last_model(chain / "1-sft"));
}
