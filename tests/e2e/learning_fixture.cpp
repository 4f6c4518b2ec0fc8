// Runs with recorded completions, and the log-probs before and after them.
#include "e2e/learning_fixture.hpp"

#include <fmt/format.h>

#include "actors/config/device_class.hpp"
#include "actors/orchestrator/prompter.hpp"
#include "e2e/run_fixture.hpp"
#include "policy/engine/threads.hpp"
#include "support/test.hpp"

namespace quern::test {

namespace fs = std::filesystem;

scorer::scorer(const fs::path& weights)
    : text_(policy::tokenizer::load(weights).value()),
      format_(policy::load_chat_format(weights).value()) {
  policy::set_threads(1);
  auto arena = policy::parameter_arena::load(weights).value();
  end_tokens_ = arena.config.eos_tokens;
  engine_.emplace(policy::generator::make(std::move(arena), 0).value());
}

std::vector<float> scorer::log_probs(const std::string& prompt, const std::string& completion) {
  const policy::chat_message message{"user", prompt};
  policy::generation_request request;
  request.id = ++last_id_;
  request.prompt = policy::encode_chat(text_, format_, std::span(&message, 1)).value();
  request.given = policy::encode_answer(text_, format_, end_tokens_, completion);
  REQUIRE(engine_->submit(std::span(&request, 1)));
  return engine_->run().at(0).log_probs;
}

fs::path first_weights() {
  return source_dir() / "policy/demo";
}

learning_world::learning_world(std::vector<std::string> settings, const make_candidates& make)
    : folder_(std::move(base::temp_folder::make().value())),
      recorded_(folder_.path() / "recorded.jsonl"),
      settings_(std::move(settings)) {
  settings_.insert(
      settings_.begin(),
      {"policy.model=" + first_weights().string(), "policy.engine=recorded",
       "policy.recorded=" + recorded_.string(), "replay.exemplars=none", "learner.warmup_steps=1",
       "actors.staleness=0", "observe.evaluation_set=false"});
  config_ = config_of(train_command(folder_.path() / "none", 1, settings_));
  tasks_.emplace(actors::task_book::make(config_).value());
  candidates_ = make(*tasks_);
  write_recorded(recorded_, candidates_);
}

fs::path learning_world::run(const std::string& name, std::int64_t steps,
                             const std::vector<std::string>& more) const {
  std::vector<std::string> settings = settings_;
  settings.insert(settings.end(), more.begin(), more.end());
  settings.push_back("storage.checkpoint_every_steps=" + std::to_string(steps));
  fs::path made = folder_.path() / name;
  const finished ended =
      run_to_end(train_command(made, steps, settings), folder_.path() / (name + ".log"));
  CAPTURE(ended.output);
  REQUIRE(ended.code == 0);
  CHECK(contains(ended.output,
                 fmt::format("policy.recorded: {} completions may be played", candidates_.size())));
  check_law(made);
  CHECK(version_of(made) == steps);
  check_played(made, config_);
  return made;
}

double learning_world::gain(const fs::path& run, std::int64_t steps) const {
  return best_by(run / fmt::format("checkpoints/v{:08}/model", steps)) - best_by(first_weights());
}

double learning_world::best_by(const fs::path& weights) const {
  const auto device_class = actors::device_class_of(config_).value();
  const auto prompts = actors::prompter::make(config_, device_class).value();
  scorer score(weights);
  double sum = 0;
  int count = 0;
  for (const recorded_candidate& one : candidates_) {
    if (!one.best) continue;
    const auto& task = *tasks_->find(one.task).value();
    for (const float value : score.log_probs(prompts.render(task, {}).text, one.text))
      sum += value;
    ++count;
  }
  REQUIRE(count > 0);
  return sum / count;
}

}  // namespace quern::test
