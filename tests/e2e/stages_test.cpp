// Three stages in one file, stopped inside one and between two, and gone on with.
#include <signal.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/subprocess.hpp"
#include "e2e/run_fixture.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::test;
namespace fs = std::filesystem;
using base::operator""_s;

namespace {

/// A policy that has learnt next to nothing: what it writes is malformed, so that nothing has to be
/// compiled, and what is tested is the order of things.
constexpr auto chain_config = R"(quern_config: 2
run: {name: chain}
policy: {layers: 1, width: 32, heads: 2, kv_heads: 1, head_width: 16, mlp_width: 64,
         vocabulary: 300, max_prompt_tokens: 900, max_new_tokens: 24}
tasks: {seed: 1000, count: 4, held_out_count: 0}
env: {evaluators: 1, sandbox: best_effort}
replay: {exemplars: none}
algorithm: {group_size: 4, groups_per_step: 1}
observe: {evaluation_set: false}
stages:
  - stage: sft
    tasks: {corpus_tasks: 4, corpus_variants: 2, corpus_exemplars_share: 0}
    policy: {max_new_tokens: 420}
    learner: {steps: 100000, batch_samples: 2, device: cpu}
    storage: {checkpoint_every_steps: 2}
  - stage: self_train
    learner: {steps: 2}
  - stage: contrastive
    learner: {steps: 3}
    storage: {checkpoint_every_steps: 1}
)";

}  // namespace

TEST_CASE("stages follow each other; a chain stops inside and between them and goes on") {
  auto folder = base::temp_folder::make();
  REQUIRE(folder);
  const fs::path chain = folder->path() / "chain", log = folder->path() / "log",
                 asked = folder->path() / "asked";
  REQUIRE(base::write_file_atomic(folder->path() / "chain.yaml", chain_config));
  const std::vector<std::string> train{program("quern"), "train",
                                       (folder->path() / "chain.yaml").string(), "--set",
                                       "run.folder=" + chain.string()};
  auto control = base::subprocess::start({.argv = train, .log = log});
  REQUIRE(control);
  const auto has_checkpoint = [](const fs::path& run) {
    return fs::exists(run / "checkpoints/LATEST");
  };
  REQUIRE(wait_until(240_s, [&] { return has_checkpoint(chain / "1-sft") || control->poll(); }));
  // Commands of a chain are for the stage that it is in.
  CHECK(run_to_end({program("quern"), "pause", chain.string()}, asked).code == 0);
  const auto paused = control->wait(60_s);
  CAPTURE(base::read_file(log).value_or(""));
  REQUIRE(paused);
  CHECK(paused->code == 3);
  CHECK_FALSE(fs::exists(chain / "2-self_train"));

  // What is wrong with the settings of any stage is said before one goes on.
  const auto refused = [&](std::vector<std::string> words, const char* part) {
    fs::remove(asked);
    for (const char* word : {"--set", "sft.learner.steps=300"})
      words.emplace_back(word);
    words.insert(words.begin(), {program("quern"), "resume", chain.string(), "--set"});
    const finished end = run_to_end(words, asked);
    CAPTURE(end.output);
    CHECK(end.code == 2);
    CHECK(contains(end.output, part));
  };
  refused({"contrastive.learner.stepz=4"}, "learner.stepz");
  refused({"self_train.learner.steps=0"}, "learner.steps is 0");
  refused({"contrastive.policy.model=a"}, "policy.model is fixed");
  refused({"sft.run.seed=9"}, "run.seed is fixed");

  // Fine-tuning ends a little after where it was paused; a signal comes as soon as the next stage
  // is there.
  const fs::path more = folder->path() / "more";
  auto resumed = base::subprocess::start(
      {.argv = {program("quern"), "resume", chain.string(), "--set", "sft.learner.steps=300",
                "--set", "contrastive.learner.steps=4"},
       .log = more});
  REQUIRE(resumed);
  REQUIRE(wait_until(
      240_s, [&] { return fs::exists(chain / "2-self_train/meta.json") || resumed->poll(); }));
  resumed->send_signal(SIGTERM);
  const auto ended = resumed->wait(120_s);
  CAPTURE(base::read_file(more).value_or(""));
  REQUIRE(ended);
  CHECK((ended->code == 3 || ended->signal == SIGTERM));
  CHECK_FALSE(fs::exists(chain / "3-contrastive"));

  const finished last = run_to_end({program("quern"), "resume", chain.string()}, asked);
  CAPTURE(last.output);
  CHECK(last.code == 0);
  CHECK(last.output.find("stage 1-sft is complete") != std::string::npos);
  CHECK(last.output.find("stage 3-contrastive begins") != std::string::npos);
  CHECK(version_of(chain / "2-self_train") == 2);
  // As it was set for it before it began.
  CHECK(version_of(chain / "3-contrastive") == 4);
  check_law(chain / "3-contrastive");
  // Each stage began with what the one before it ended with.
  const auto text = base::read_file(chain / "3-contrastive/config.yaml").value();
  CHECK(text.find("2-self_train/checkpoints/v00000002/model") != std::string::npos);
  // Nothing is left to do, and the chain cannot be begun anew.
  CHECK(run_to_end({program("quern"), "resume", chain.string()}, asked).code == 0);
  CHECK(run_to_end(train, asked).code != 0);
  refused({"nonsense.foo=3"}, "nonsense.foo");
  refused({"contrastive.learner.steps=-1"}, "learner.steps");
  refused({"self_train.learner.steps=9"}, "stage 3-contrastive has begun");
  const auto resume = [&](const std::string& setting) {
    return run_to_end({program("quern"), "resume", chain.string(), "--set", setting}, asked).code;
  };
  CHECK(resume("contrastive.learner.steps=4") == 4);
  CHECK(resume("contrastive.learner.steps=5") == 0);
  CHECK(version_of(chain / "3-contrastive") == 5);
  CHECK(version_of(chain / "2-self_train") == 2);
}

TEST_CASE("a signal in the last step of a stage keeps the next one from beginning") {
  const auto folder = base::temp_folder::make().value();
  const fs::path chain = folder.path() / "chain", log = folder.path() / "log";
  REQUIRE(base::write_file_atomic(folder.path() / "two.yaml",
                                  "quern_config: 2\n"
                                  "policy: {model: policy/demo, max_new_tokens: 24}\n"
                                  "tasks: {seed: 1000, count: 4, held_out_count: 0}\n"
                                  "env: {evaluators: 1, sandbox: best_effort}\n"
                                  "replay: {exemplars: none}\n"
                                  "algorithm: {group_size: 4, groups_per_step: 1}\n"
                                  "observe: {evaluation_set: false}\n"
                                  "learner: {steps: 3}\n"
                                  "stages: [{stage: self_train}, {stage: contrastive}]\n"));
  const std::vector<std::string> train{program("quern"), "train",
                                       (folder.path() / "two.yaml").string(), "--set",
                                       "run.folder=" + chain.string()};
  const auto said = [&] { return base::read_file(log).value_or(""); };
  // For a stage that the file does not have.
  std::vector<std::string> for_nobody = train;
  for (const char* word : {"--set", "sft.learner.steps=7"})
    for_nobody.emplace_back(word);
  const finished refused = run_to_end(for_nobody, folder.path() / "refused");
  CHECK(refused.code == 2);
  CHECK(contains(refused.output, "there are self_train, contrastive"));

  auto control = base::subprocess::start({.argv = train, .log = log});
  REQUIRE(control);
  REQUIRE(wait_until(240_s, [&] { return contains(said(), "step 3/3") || control->poll(); }));
  control->send_signal(SIGINT);
  const auto ended = control->wait(60_s);
  CAPTURE(said());
  REQUIRE(ended);
  CHECK(ended->code == 3);
  CHECK(contains(said(), "quern resume " + chain.string()));
  CHECK_FALSE(fs::exists(chain / "2-contrastive"));
  const finished resumed =
      run_to_end({program("quern"), "resume", chain.string()}, folder.path() / "more");
  CAPTURE(resumed.output);
  CHECK(resumed.code == 0);
  CHECK(contains(resumed.output, "stage 1-self_train is complete"));
  CHECK(version_of(chain / "2-contrastive") == 3);
  check_law(chain / "1-self_train");
}
