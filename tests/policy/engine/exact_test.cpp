// Exact mode: what the generator's own passes give for tokens that are there already is, to the
// bit, what it told when it sampled them, through new weights and in other company; and the
// learner's mismatch is zero with it.
#include <vector>

#include <ATen/TensorOperators.h>

#include "policy/engine/exact_cases.hpp"
#include "policy/engine/exact_scorer.hpp"
#include "policy/engine/threads.hpp"
#include "policy/engine/trainer.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::policy;
using namespace quern::test;

namespace {

generator_options options_of(generation_method method, bool exact) {
  generator_options o;
  o.method = method;
  o.exact = exact;
  o.rows = 7;
  o.slots = 6;
  o.page = 32;
  return o;
}

}  // namespace

TEST_CASE("exact: given tokens have the bits of sampled ones, of the version that sampled them") {
  set_threads(1);
  for (const auto method : {generation_method::slots, generation_method::paged}) {
    CAPTURE(static_cast<int>(method));
    const comparison with =
        compare_versions(small_config(architecture::qwen3), options_of(method, true));
    CHECK(with.tokens > 100);
    CHECK(with.mixed > 2);
    CHECK(with.different == 0);
    // Without it the cache keeps what older weights made of the tokens before.
    const comparison without =
        compare_versions(small_config(architecture::qwen3), options_of(method, false));
    CHECK(without.mixed > 2);
    CHECK(without.different > 0);
  }
}

TEST_CASE("given tokens are refused where they cannot be computed") {
  const parameter_arena arena =
      parameter_arena::random(small_config(architecture::qwen3), 3).value();
  generator engine = made_of(arena, 1, options_of(generation_method::slots, true));
  generation_request r = ask(1, some_tokens(60, 2));
  r.given = some_tokens(60, 3);
  const auto longer = engine.submit(std::span(&r, 1));
  REQUIRE_FALSE(longer);
  CHECK(longer.error().message.find("60 tokens and a given completion of 60") != std::string::npos);
  r.given = {1, -1};
  const auto outside = engine.submit(std::span(&r, 1));
  REQUIRE_FALSE(outside);
  CHECK(outside.error().message.find("given token -1") != std::string::npos);
  CHECK(engine.idle());
}

namespace {

training_sequence to_train(const generation_request& asked, const generation_result& sampled) {
  training_sequence s;
  s.tokens = asked.prompt;
  s.tokens.insert(s.tokens.end(), sampled.tokens.begin(), sampled.tokens.end());
  s.loss_mask.assign(asked.prompt.size(), 0);
  s.loss_mask.resize(s.tokens.size(), 1);
  s.behaviour_log_probs.assign(asked.prompt.size(), 0.0F);
  s.behaviour_log_probs.insert(s.behaviour_log_probs.end(), sampled.log_probs.begin(),
                               sampled.log_probs.end());
  s.versions.assign(s.tokens.size(), 1);
  s.temperature = asked.greedy ? 1 : asked.temperature;
  s.advantage = asked.id % 2 == 0 ? 1 : -1;
  return s;
}

}  // namespace

TEST_CASE("exact: the learner's mismatch is zero at equal weights, and its gradient is the same") {
  set_threads(1);
  const parameter_arena arena =
      parameter_arena::random(small_config(architecture::qwen2), 3).value();
  const generator_options o = options_of(generation_method::slots, true);
  const auto asked = some_requests();
  generator engine = made_of(arena, 1, o);
  REQUIRE(engine.submit(asked));
  const results_by_id sampled = by_id(engine.run());
  std::vector<training_sequence> batch;
  for (const generation_request& r : asked)
    batch.push_back(to_train(r, sampled.at(r.id)));
  batch[0].loss_mask[batch[0].tokens.size() - 2] = 0;  // a token that the policy did not sample
  std::vector<training_sequence> scored = batch;
  auto scorer = exact_scorer::make(arena, 1, o);
  REQUIRE(scorer);
  REQUIRE(scorer->score(scored));
  CHECK(scored[0].exact_log_probs[scored[0].tokens.size() - 2] == 0.0F);

  const auto train_on = [&](const std::vector<training_sequence>& sequences, bool tensors) {
    trainer_options options;
    options.loss = preset_defaults(preset::group_normalised);
    options.losses_as_tensors = tensors;
    parameter_arena own = arena.like();
    own.flat.copy_(arena.flat);
    trainer made = std::move(trainer::make(own, options)).value();
    made.set_version(1);
    const auto metrics = made.gradients(sequences, count(sequences));
    REQUIRE(metrics);
    return std::pair(*metrics, made.gradient_arena().flat.clone());
  };
  for (const bool tensors : {false, true}) {
    CAPTURE(tensors);
    const auto [with, gradient] = train_on(scored, tensors);
    const auto [without, other] = train_on(batch, tensors);
    CHECK(with.mismatch_tokens == with.tokens);
    CHECK(with.mismatch_max == 0);
    CHECK(with.behaviour_kl == 0);
    CHECK(with.ratio == 1);
    CHECK(without.mismatch_max > 0);
    CHECK(without.mismatch_max < 1e-4);
    CHECK((gradient - other).abs().max().item().toDouble() <
          1e-4 * other.abs().max().item().toDouble());
  }

  // After a step the scorer is told the new weights, or the mismatch says that it was not.
  parameter_arena moved = arena.like();
  moved.flat.copy_(arena.flat).mul_(1.01);
  REQUIRE(scorer->take(moved, 2));
  REQUIRE(scorer->score(scored));
  CHECK(train_on(scored, false).first.mismatch_max > 0);
  REQUIRE(scorer->take(arena, 3));
  REQUIRE(scorer->score(scored));
  CHECK(train_on(scored, false).first.mismatch_max == 0);
}
