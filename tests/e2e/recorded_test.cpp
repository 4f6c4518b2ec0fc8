// A run that plays recorded completions learns from their rewards, and from nothing else: with the
// real rewards the best of them become more likely; with rewards permuted within each batch, or a
// learning rate of zero, they do not.
#include <cmath>

#include <fmt/format.h>

#include "actors/config/device_class.hpp"
#include "actors/replay/prompter.hpp"
#include "base/file.hpp"
#include "e2e/recorded_fixture.hpp"
#include "e2e/run_fixture.hpp"
#include "policy/engine/generator.hpp"
#include "policy/engine/threads.hpp"
#include "policy/text/chat.hpp"
#include "policy/text/tokenizer.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::test;
namespace fs = std::filesystem;

namespace {

constexpr std::int64_t steps = 8;

/// Two tasks, and in each group all six completions of its task.
std::vector<std::string> settings_for(const fs::path& recorded) {
  return {"run.seed=1",
          "policy.engine=recorded",
          "policy.recorded=" + recorded.string(),
          "policy.max_new_tokens=400",
          "env.protocol=cost_model/1",
          "tasks.count=2",
          "tasks.held_out_count=0",
          "replay.exemplars=none",
          "algorithm.group_size=6",
          "algorithm.groups_per_step=2",
          "learner.learning_rate=0.00001",
          "learner.warmup_steps=1",
          "actors.staleness=0",
          "observe.panel=false"};
}

/// The weights of a folder, and log-probs of texts by them.
class scorer {
 public:
  explicit scorer(const fs::path& folder)
      : text_(policy::tokenizer::load(folder).value()),
        format_(policy::load_chat_format(folder).value()) {
    policy::set_threads(1);
    auto arena = policy::parameter_arena::load(folder).value();
    end_tokens_ = arena.config.eos_tokens;
    engine_.emplace(policy::generator::make(std::move(arena), 0).value());
  }

  /// Of the completion's tokens and its end, each.
  std::vector<float> log_probs(const std::string& prompt, const std::string& completion) {
    const policy::chat_message message{"user", prompt};
    policy::generation_request request;
    request.id = ++last_id_;
    request.prompt = policy::encode_chat(text_, format_, std::span(&message, 1)).value();
    request.given = policy::encode_answer(text_, format_, end_tokens_, completion);
    REQUIRE(engine_->submit(std::span(&request, 1)));
    return engine_->run().at(0).log_probs;
  }

 private:
  policy::tokenizer text_;
  policy::chat_format format_;
  std::vector<policy::token_id> end_tokens_;
  std::optional<policy::generator> engine_;
  std::uint64_t last_id_ = 0;
};

double sum_of(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values)
    sum += value;
  return sum;
}

struct learning_world {
  base::temp_folder folder = std::move(base::temp_folder::make().value());
  fs::path recorded = folder.path() / "recorded.jsonl";
  actors::run_config config;
  std::optional<actors::task_book> tasks;
  std::vector<recorded_kernel> kernels;

  learning_world() {
    config = config_of(train_command(folder.path() / "none", steps, settings_for(recorded)));
    tasks.emplace(actors::task_book::make(config).value());
    kernels = kernels_for(*tasks);
    REQUIRE(kernels.size() == 12);
    write_recorded(recorded, kernels);
  }

  /// Mean log-prob of the best completions, by the weights of a folder.
  [[nodiscard]] double best_by(const fs::path& weights) const {
    const auto device_class = actors::device_class_of(config).value();
    const auto prompts = actors::prompter::make(config, device_class).value();
    scorer score(weights);
    double sum = 0;
    int count = 0;
    for (const recorded_kernel& one : kernels) {
      if (!one.best) continue;
      const auto& task = *tasks->find(one.task).value();
      sum += sum_of(score.log_probs(prompts.render(task, {}).text, one.text));
      ++count;
    }
    REQUIRE(count == 2);
    return sum / count;
  }

  [[nodiscard]] fs::path run(const std::string& name, std::int64_t count,
                             const std::vector<std::string>& more) const {
    std::vector<std::string> settings = settings_for(recorded);
    settings.insert(settings.end(), more.begin(), more.end());
    settings.push_back("storage.checkpoint_every_steps=" + std::to_string(count));
    fs::path made = folder.path() / name;
    const finished ended =
        run_to_end(train_command(made, count, settings), folder.path() / (name + ".log"));
    CAPTURE(ended.output);
    REQUIRE(ended.code == 0);
    CHECK(contains(ended.output, "policy.recorded: 12 completions may be played"));
    check_law(made);
    CHECK(version_of(made) == count);
    check_played(made, config);
    return made;
  }

  [[nodiscard]] double gain(const fs::path& of_run, std::int64_t count) const {
    const fs::path first = source_dir() / "policy/demo";
    return best_by(of_run / fmt::format("checkpoints/v{:08}/model", count)) - best_by(first);
  }
};

/// What a learner was told of samples of the first weights is what these weights say.
void check_scores(const fs::path& run) {
  scorer score(source_dir() / "policy/demo");
  int compared = 0;
  for (const played_sample& one : played_in(run)) {
    if (one.last_version > 0 || compared >= 3) continue;
    const auto expected = score.log_probs(one.prompt, one.text);
    REQUIRE(one.log_probs.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      CHECK(std::abs(one.log_probs[i] - expected[i]) < 1e-3);
    ++compared;
  }
  CHECK(compared == 3);
}

}  // namespace

// Gains in nats. Each group plays its whole pool, so that the run by real rewards is the same for
// every run.seed: it gained 1.03. Permuted rewards gained -2.44, -0.62 and 0.06 by the seeds 1, 2
// and 3; the test takes the first.
TEST_CASE("recorded completions: the best become more likely by the real rewards alone") {
  const learning_world w;
  const fs::path real = w.run("real", steps, {});
  check_scores(real);
  const double learned = w.gain(real, steps);
  const double permuted = w.gain(w.run("permuted", steps, {"learner.permute_rewards=true"}), steps);
  const double still = w.gain(w.run("still", 2, {"learner.learning_rate=0"}), 2);
  MESSAGE("gain of the log-prob: " << learned << " by real rewards, " << permuted << " permuted, "
                                   << still << " at learning rate 0");
  CHECK(learned > 0.75);
  CHECK(permuted < 0.4);
  CHECK(still == 0);
}
