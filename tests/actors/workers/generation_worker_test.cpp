// A generator that plays recorded completions: their tokens, log-probs by the weights that it holds
// at each token, and what it refuses.
#include "actors/workers/generation_worker.hpp"

#include <cmath>
#include <map>
#include <optional>
#include <span>
#include <thread>

#include "base/file.hpp"
#include "policy/engine/threads.hpp"
#include "policy/weights/weight_channel.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::actors;
namespace fs = std::filesystem;

namespace {

const fs::path demo = test::source_dir() / "policy/demo";

policy::parameter_arena demo_weights() {
  return policy::parameter_arena::load(demo).value();
}

/// Other weights of the same shape.
policy::parameter_arena later_weights() {
  auto made = demo_weights();
  made.flat.mul_(0.9);
  return made;
}

struct playing_worker {
  base::temp_folder folder = std::move(base::temp_folder::make().value());
  run_config config;
  std::optional<generation_worker> worker;
  policy::tokenizer text = policy::tokenizer::load(demo).value();

  playing_worker() {
    policy::set_threads(1);
    welcome start;
    start.incarnation = 3;
    start.checkpoint = demo.string();
    start.weights_folder = folder.path().string();
    auto made = generation_worker::make(start, config, {}, [](const std::string&) {});
    REQUIRE_MESSAGE(made, (made ? "" : made.error().message));
    worker.emplace(std::move(*made));
  }

  [[nodiscard]] generate_group group(std::vector<std::string> recorded) const {
    generate_group asked;
    asked.incarnation = 3;
    asked.group = 7;
    for (std::size_t i = 0; i < recorded.size(); ++i)
      asked.samples.push_back(40 + static_cast<sample_id>(i));
    asked.prompt = "a prompt";
    asked.seed = 1;
    asked.max_tokens = 60;
    asked.temperature = 1;
    asked.recorded = std::move(recorded);
    return asked;
  }

  void steps_to_end(std::map<sample_id, generated_sample>& all) {
    while (!worker->idle())
      for (generated_sample& sample : worker->step())
        all[sample.sample] = std::move(sample);
  }

  [[nodiscard]] std::string refusal(const generate_group& asked) {
    const auto taken = worker->submit(asked);
    REQUIRE_FALSE(taken);
    CHECK(worker->idle());
    return taken.error().message;
  }
};

/// By an engine of its own with these weights.
std::vector<float> scored(const policy::parameter_arena& weights, const std::string& sample_tokens,
                          std::size_t prompt) {
  auto engine = policy::generator::make(weights, 0).value();
  const auto tokens = from_block<std::int32_t>(sample_tokens);
  const auto end = tokens.begin() + static_cast<std::ptrdiff_t>(prompt);
  policy::generation_request request;
  request.id = 1;
  request.prompt.assign(tokens.begin(), end);
  request.given.assign(end, tokens.end());
  REQUIRE(engine.submit(std::span(&request, 1)));
  return engine.run().at(0).log_probs;
}

void check_close(const std::vector<float>& a, const std::vector<float>& b, std::size_t from,
                 std::size_t to) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = from; i < to; ++i)
    CHECK(std::abs(a[i] - b[i]) < 1e-3);
}

}  // namespace

TEST_CASE("recorded completions are played whole, with log-probs by the worker's weights") {
  playing_worker p;
  const std::vector<std::string> texts = {"int x;\n", "for (;;) {}<|endoftext|>", "no code at all"};
  REQUIRE(p.worker->submit(p.group(texts)));
  std::map<sample_id, generated_sample> all;
  p.steps_to_end(all);
  REQUIRE(all.size() == 3);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const generated_sample& made = all.at(40 + static_cast<sample_id>(i));
    CHECK(made.incarnation == 3);
    CHECK(made.text == texts[i]);
    CHECK_FALSE(made.truncated);
    REQUIRE(check_segments(made.segments, made.tokens, made.log_probs));
    const auto prompt = static_cast<std::size_t>(made.segments.at(0).length);
    const auto tokens = from_block<std::int32_t>(made.tokens);
    // Nothing of the text is special; what ends it is.
    CHECK(p.text.is_special(tokens.back()));
    for (std::size_t k = prompt; k + 1 < tokens.size(); ++k)
      CHECK_FALSE(p.text.is_special(tokens[k]));
    const auto log_probs = from_block<float>(made.log_probs);
    CHECK(log_probs.size() == p.text.encode(texts[i]).size() + 1);
    check_close(log_probs, scored(demo_weights(), made.tokens, prompt), 0, log_probs.size());
    REQUIRE(made.versions.size() == 1);
    CHECK(made.versions[0].first_token == 0);
    CHECK(made.versions[0].version == 0);
    CHECK(made.versions[0].weights == demo_weights().hash());
  }
}

TEST_CASE("weights that arrive in between count from the next token on, and are stamped so") {
  playing_worker p;
  REQUIRE(p.worker->submit(p.group({"float a = x[i]; y[i] = a; // and so on, and on"})));
  std::map<sample_id, generated_sample> all;
  while (p.worker->tokens() < 5)
    for (generated_sample& sample : p.worker->step())
      all[sample.sample] = std::move(sample);
  const policy::parameter_arena later = later_weights();
  const std::span<const std::byte> bytes(static_cast<const std::byte*>(later.flat.data_ptr()),
                                         later.flat.nbytes());
  const auto file = policy::publish_weights(p.folder.path(), 1, policy::weight_dtype::f32, bytes);
  REQUIRE(file);
  auto installed = p.worker->install({3, 1, later.hash(), *file});
  for (int k = 0; k < 1000 && installed && !*installed; ++k) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    installed = p.worker->install_arrived();
  }
  REQUIRE(installed);
  REQUIRE(installed->has_value());
  CHECK(p.worker->work().installs == 1);
  CHECK(p.worker->work().install_ns > 0);
  CHECK(p.worker->work().cache_held > 0);
  CHECK(p.worker->work().cache_held <= p.worker->work().cache_room);
  p.steps_to_end(all);
  const generated_sample& made = all.at(40);
  const auto log_probs = from_block<float>(made.log_probs);
  const auto prompt = static_cast<std::size_t>(made.segments.at(0).length);
  REQUIRE(made.versions.size() == 2);
  CHECK(made.versions[1].version == 1);
  CHECK(made.versions[1].weights == later.hash());
  const auto change = static_cast<std::size_t>(made.versions[1].first_token);
  CHECK(change == 5);
  check_close(log_probs, scored(demo_weights(), made.tokens, prompt), 0, change);
  // Behind it the keys and values of earlier tokens are the old weights': not those of `later`
  // alone, and not those of the first.
  const auto old = scored(demo_weights(), made.tokens, prompt);
  bool differs = false;
  for (std::size_t i = change; i < log_probs.size(); ++i)
    differs |= std::abs(log_probs[i] - old[i]) > 1e-2;
  CHECK(differs);
}

TEST_CASE("a recorded completion that is too long, or one too few, is refused with the numbers") {
  playing_worker p;
  std::string text = "x";
  while (p.text.encode(text).size() < 59)
    text += "\x01";
  REQUIRE(p.text.encode(text).size() == 59);
  CHECK(p.worker->submit(p.group({text})));
  std::map<sample_id, generated_sample> all;
  p.steps_to_end(all);
  CHECK_FALSE(all.at(40).truncated);
  CHECK(test::contains(p.refusal(p.group({text + "\x01"})),
                       "group 7 has a recorded completion of 61 tokens, policy.max_new_tokens "
                       "is 60: raise that"));
  generate_group uneven = p.group({"a", "b"});
  uneven.recorded.pop_back();
  CHECK(test::contains(p.refusal(uneven), "group 7 has 2 samples and 1 recorded completions"));
}

TEST_CASE("a group without recorded completions is sampled, and cut at its limit") {
  playing_worker p;
  generate_group asked = p.group({"a", "b"});
  asked.recorded.clear();
  asked.max_tokens = 4;
  REQUIRE(p.worker->submit(asked));
  std::map<sample_id, generated_sample> all;
  p.steps_to_end(all);
  REQUIRE(all.size() == 2);
  CHECK(from_block<float>(all.at(40).log_probs).size() == 4);
  CHECK(all.at(40).truncated);
}
