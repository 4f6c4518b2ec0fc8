// Training: gradients against finite differences in float64, invariance to packing, AdamW by hand,
// learning, refusals.
#include "policy/engine/trainer.hpp"

#include <cmath>
#include <limits>

#include "policy/engine/evaluate.hpp"
#include "policy/engine/small_models.hpp"
#include "policy/loss/token_loss.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::policy;
using doctest::Approx;
using quern::test::small_config;
using quern::test::some_tokens;

namespace {

/// Two groups of three with equal prompts, one lonely sequence, gaps in a loss mask, different
/// temperatures and ages.
std::vector<training_sequence> some_batch() {
  std::vector<training_sequence> batch;
  for (std::uint32_t i = 0; i < 7; ++i) {
    training_sequence s;
    s.tokens = some_tokens(4 + 9 * (i / 3), 50 + i / 3);
    const std::size_t prompt = s.tokens.size();
    const auto completion = some_tokens(3 + 4 * i, 90 + i);
    s.tokens.insert(s.tokens.end(), completion.begin(), completion.end());
    s.loss_mask.assign(s.tokens.size(), 1);
    std::fill_n(s.loss_mask.begin(), prompt, std::uint8_t{0});
    if (i == 4) s.loss_mask[prompt + 5] = s.loss_mask.back() = 0;
    s.advantage = i % 2 == 0 ? 0.8 + 0.1 * i : -0.5 - 0.1 * i;
    s.weight = i == 2 ? 0.5 : 1;
    s.temperature = i == 5 ? 1.4 : 1;
    batch.push_back(std::move(s));
  }
  return batch;
}

/// Log-probs near the policy's own, so that some ratios are inside and some outside the clip.
void add_log_probs(std::vector<training_sequence>& batch, trainer& learner) {
  const auto own = learner.log_probs(batch).value();
  for (std::size_t i = 0; i < batch.size(); ++i) {
    training_sequence& s = batch[i];
    s.behaviour_log_probs = s.proximal_log_probs = s.reference_log_probs = own[i];
    for (std::size_t t = 0; t < s.tokens.size(); ++t) {
      s.behaviour_log_probs[t] += 0.35F * std::sin(static_cast<float>(7 * i + 3 * t));
      s.proximal_log_probs[t] += 0.3F * std::sin(static_cast<float>(5 * i + 2 * t + 1));
      s.reference_log_probs[t] += 0.5F * std::sin(static_cast<float>(3 * i + 5 * t + 2));
    }
  }
}

trainer make_trainer(const parameter_arena& arena, const trainer_options& options) {
  auto made = trainer::make(arena, options);
  REQUIRE_MESSAGE(made, (made ? "" : made.error().message));
  return std::move(*made);
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return a.sub(b).abs().max().item<double>();
}

}  // namespace

TEST_CASE(
    "gradients of every parameter are the derivatives of the loss, for each architecture and "
    "preset") {
  for (architecture arch : {architecture::qwen2, architecture::qwen3, architecture::llama})
    for (preset name : {preset::sft, preset::reinforce, preset::group_normalised,
                        preset::group_centred, preset::group_smoothed}) {
      CAPTURE(model_type(arch));
      CAPTURE(to_string(name));
      const parameter_arena arena =
          parameter_arena::random(small_config(arch, arch == architecture::llama), 8, at::kDouble)
              .value();
      trainer_options options;
      options.loss = preset_defaults(name);
      options.pack.max_rows = 60;
      options.valid_tokens = 61;
      if (uses_group_baseline(name))
        options.loss.anchor =
            name == preset::group_normalised ? ratio_anchor::behaviour : ratio_anchor::proximal;
      trainer learner = make_trainer(arena, options);
      std::vector<training_sequence> batch = some_batch();
      add_log_probs(batch, learner);
      if (name == preset::reinforce)  // its weight is held constant, which a difference quotient
                                      // cannot know: make it constant
        for (training_sequence& s : batch)
          for (float& p : s.behaviour_log_probs)
            p -= 5;
      const batch_totals totals = count(batch);
      const auto metrics = learner.gradients(batch, totals);
      REQUIRE(metrics);
      const at::Tensor gradient = learner.gradient_arena().flat.clone();
      double* weights = arena.flat.mutable_data_ptr<double>();
      const auto loss_with = [&](std::int64_t index, double shift) {
        const double kept = weights[index];
        weights[index] = kept + shift;
        const double loss = learner.gradients(batch, totals)->loss;
        weights[index] = kept;
        return loss;
      };
      for (const parameter& p : arena.layout.parameters)
        for (std::int64_t part : {std::int64_t{0}, p.count() / 3 + 1}) {
          const std::int64_t index = p.offset + part;
          constexpr double h = 1e-5;
          const double numeric = (loss_with(index, h) - loss_with(index, -h)) / (2 * h);
          CAPTURE(p.name);
          CHECK(gradient.const_data_ptr<double>()[index] ==
                Approx(numeric).epsilon(2e-5).scale(1e-3));
        }
    }
}

TEST_CASE("micro-batches, shared prompts, padding, chunks, workers and order change nothing") {
  const parameter_arena arena =
      parameter_arena::random(small_config(architecture::qwen3), 8, at::kDouble).value();
  trainer_options options;
  options.loss = preset_defaults(preset::group_smoothed);
  trainer whole = make_trainer(arena, options);
  std::vector<training_sequence> batch = some_batch();
  add_log_probs(batch, whole);
  const step_metrics expected = whole.gradients(batch, count(batch)).value();
  const at::Tensor gradient = whole.gradient_arena().flat.clone();
  const auto same = [&](const trainer_options& how,
                        const std::vector<training_sequence>& sequences) {
    trainer other = make_trainer(arena, how);
    const step_metrics m = other.gradients(sequences, count(sequences)).value();
    CHECK(m.loss == Approx(expected.loss).epsilon(1e-12));
    CHECK(m.grad_norm == Approx(expected.grad_norm).epsilon(1e-10));
    CHECK(m.clip_fraction == Approx(expected.clip_fraction));
    CHECK(m.entropy == Approx(expected.entropy).epsilon(1e-12));
    CHECK(m.mismatch_max == Approx(expected.mismatch_max).epsilon(1e-12));
    CHECK(largest_difference(other.gradient_arena().flat, gradient) < 1e-12);
    return m.forward_rows;
  };
  CHECK(expected.forward_rows == same(options, batch));
  trainer_options how = options;
  how.pack.max_rows = 40;
  same(how, batch);
  how.pack.max_rows = 1;  // every sequence alone
  const double separate_rows = same(how, batch);
  how = options;
  how.pack.share_prompts = false;
  CHECK(same(how, batch) == separate_rows);
  CHECK(expected.forward_rows ==
        separate_rows - 2 * (4 + 13));  // two groups of three share their prompts
  for (const bool share : {true, false}) {
    how.pack.share_prompts = share;
    how.pack.pad_segments = 16;
    CHECK(same(how, batch) > separate_rows);
  }
  how = options;
  how.loss_chunk = 3;
  same(how, batch);
  how = options;
  how.pack.max_rows = 40;
  how.workers = 3;
  same(how, batch);
  std::vector<training_sequence> shuffled{batch[3], batch[6], batch[0], batch[5],
                                          batch[1], batch[4], batch[2]};
  same(options, shuffled);
}

TEST_CASE("the step's loss is the sum of token losses of the recorded formula") {
  const parameter_arena arena =
      parameter_arena::random(small_config(architecture::qwen3), 8, at::kDouble).value();
  for (preset name :
       {preset::sft, preset::group_normalised, preset::group_centred, preset::group_smoothed})
    for (denominator d : {denominator::tokens, denominator::sequences, denominator::constant}) {
      trainer_options options;
      options.loss = preset_defaults(name);
      options.loss.divide_by = d;
      options.loss.denominator_tokens = 40;
      trainer learner = make_trainer(arena, options);
      std::vector<training_sequence> batch = some_batch();
      add_log_probs(batch, learner);
      const auto own = learner.log_probs(batch).value();
      const batch_totals totals{900, 10};  // more than the batch: some was filtered
      double expected = 0;
      for (std::size_t i = 0; i < batch.size(); ++i) {
        const training_sequence& s = batch[i];
        double trained = 0;
        for (std::uint8_t m : s.loss_mask)
          trained += m;
        for (std::size_t t = 0; t < s.tokens.size(); ++t)
          if (s.loss_mask[t])
            expected += s.weight * token_weight(options.loss, 900, 10, trained) *
                        evaluate_token(options.loss, {own[i][t], s.behaviour_log_probs[t],
                                                      s.proximal_log_probs[t],
                                                      s.reference_log_probs[t], s.advantage})
                            .loss;
      }
      CHECK(learner.gradients(batch, totals)->loss == Approx(expected).epsilon(1e-5));
    }
}

TEST_CASE(
    "AdamW by hand: bias correction, decay of matrices only, clipping, warm-up and schedules") {
  const parameter_arena arena =
      parameter_arena::random(small_config(architecture::qwen2), 8, at::kDouble).value();
  const at::Tensor start = arena.flat.clone();
  trainer_options options;
  options.loss = preset_defaults(preset::sft);
  options.optimizer.learning_rate = 0.01;
  options.optimizer.warmup_steps = 2;
  options.optimizer.schedule = schedule_kind::cosine;
  options.optimizer.total_steps = 6;
  options.optimizer.floor = 0.1;
  options.optimizer.weight_decay = 0.2;
  options.optimizer.max_grad_norm = 0.05;
  trainer learner = make_trainer(arena, options);
  const std::vector<training_sequence> batch = some_batch();
  const parameter* matrix = arena.layout.find("model.layers.1.self_attn.q_proj.weight");
  const parameter* vector = arena.layout.find("model.layers.0.self_attn.k_proj.bias");
  REQUIRE((matrix && vector));
  const std::vector<std::int64_t> places{matrix->offset + 3, vector->offset + 1};
  std::vector<double> w, m(2, 0), v(2, 0);
  for (std::int64_t place : places)
    w.push_back(start.const_data_ptr<double>()[place]);
  const std::vector<double> rates{0.005, 0.01, 0.01 * (0.1 + 0.9 * 0.5 * (1 + std::cos(M_PI / 4)))};
  for (int step = 0; step < 3; ++step) {
    const step_metrics metrics = learner.gradients(batch, count(batch)).value();
    REQUIRE(metrics.grad_norm > 0.05);
    std::vector<double> g;
    for (std::int64_t place : places)
      g.push_back(learner.gradient_arena().flat.const_data_ptr<double>()[place] * 0.05 /
                  metrics.grad_norm);
    const step_metrics after = learner.step(batch).value();
    CHECK(after.learning_rate == Approx(rates[static_cast<std::size_t>(step)]));
    CHECK(after.version == step + 1);
    for (std::size_t i = 0; i < 2; ++i) {
      m[i] = 0.9 * m[i] + 0.1 * g[i];
      v[i] = 0.95 * v[i] + 0.05 * g[i] * g[i];
      const double m_hat = m[i] / (1 - std::pow(0.9, step + 1)),
                   v_hat = v[i] / (1 - std::pow(0.95, step + 1));
      w[i] -=
          after.learning_rate * ((i == 0 ? 0.2 * w[i] : 0.0) + m_hat / (std::sqrt(v_hat) + 1e-8));
      CHECK(arena.flat.const_data_ptr<double>()[places[i]] == Approx(w[i]).epsilon(1e-7));
    }
  }
  CHECK(learning_rate(options.optimizer, 6) == Approx(0.001));
  CHECK(learning_rate(options.optimizer, 60) == Approx(0.001));
  optimizer_options linear = options.optimizer;
  linear.schedule = schedule_kind::linear;
  CHECK(learning_rate(linear, 4) == Approx(0.01 * (0.1 + 0.9 * 0.5)));
  linear.total_steps = 2;
  CHECK_FALSE(check(linear));
  linear.learning_rate = std::numeric_limits<double>::quiet_NaN();
  CHECK_FALSE(check(linear));
}

TEST_CASE("fine-tuning learns a text by heart, and rewards move probability") {
  const parameter_arena arena =
      parameter_arena::random(small_config(architecture::qwen3, true), 8).value();
  trainer_options options;
  options.loss = preset_defaults(preset::sft);
  options.optimizer.learning_rate = 0.01;
  trainer learner = make_trainer(arena, options);
  std::vector<training_sequence> batch = some_batch();
  for (training_sequence& s : batch) {
    s.advantage = 1;
    s.temperature = 1;
  }
  const double before = learner.step(batch)->mean_log_prob;
  for (int i = 0; i < 60; ++i)
    REQUIRE(learner.step(batch));
  CHECK(before < -3);
  CHECK(learner.gradients(batch, count(batch))->mean_log_prob > -0.5);

  const parameter_arena other =
      parameter_arena::random(small_config(architecture::qwen3, true), 9).value();
  options.loss = preset_defaults(preset::group_normalised);
  options.optimizer.learning_rate = 1e-3;
  trainer rewarded = make_trainer(other, options);
  const std::vector<training_sequence> mixed = some_batch();
  std::vector<training_sequence> tried = mixed;
  const auto first = rewarded.log_probs(mixed).value();
  for (std::size_t i = 0; i < tried.size(); ++i)
    tried[i].behaviour_log_probs = first[i];
  const step_metrics m = rewarded.step(tried).value();
  CHECK(m.ratio == Approx(1).epsilon(1e-5));
  CHECK(m.clip_fraction == 0);
  CHECK(m.mismatch_max < 1e-5);
  CHECK(m.behaviour_kl < 1e-9);
  const auto second = rewarded.log_probs(mixed).value();
  double gain = 0;
  for (std::size_t i = 0; i < tried.size(); ++i)
    for (std::size_t t = 0; t < tried[i].tokens.size(); ++t)
      gain += tried[i].advantage * (second[i][t] - first[i][t]);
  CHECK(gain > 0);
}

TEST_CASE("mismatch counts tokens of the current version only") {
  const parameter_arena arena =
      parameter_arena::random(small_config(architecture::qwen3), 8).value();
  trainer_options options;
  trainer learner = make_trainer(arena, options);
  learner.set_version(5);
  std::vector<training_sequence> batch = some_batch();
  const auto own = learner.log_probs(batch).value();
  for (std::size_t i = 0; i < batch.size(); ++i) {
    batch[i].behaviour_log_probs = own[i];
    batch[i].versions.assign(batch[i].tokens.size(), i == 0 ? 5 : 4);
    if (i != 0) batch[i].behaviour_log_probs.back() -= 0.25F;
  }
  const step_metrics m = learner.gradients(batch, count(batch)).value();
  CHECK(m.mismatch_tokens == 3);
  CHECK(m.mismatch_max < 1e-5);
  CHECK(m.behaviour_kl > 1e-4);
}

TEST_CASE("sequences that cannot have a gradient are left out, and nothing else changes") {
  const parameter_arena arena =
      parameter_arena::random(small_config(architecture::qwen3), 8, at::kDouble).value();
  trainer_options options;
  trainer learner = make_trainer(arena, options);
  options.skip_idle = false;
  trainer thorough = make_trainer(arena, options);
  std::vector<training_sequence> batch = some_batch();
  add_log_probs(batch, learner);
  batch[1].advantage = 0;
  batch[6].weight = 0;
  const step_metrics less = learner.gradients(batch, count(batch)).value();
  const step_metrics all = thorough.gradients(batch, count(batch)).value();
  CHECK(less.idle_sequences == 2);
  CHECK(less.forward_rows < all.forward_rows);
  CHECK(less.loss == Approx(all.loss).epsilon(1e-12));
  CHECK(largest_difference(learner.gradient_arena().flat, thorough.gradient_arena().flat) < 1e-13);
  for (training_sequence& s : batch)
    s.advantage = 0;
  const auto nothing = learner.step(batch);
  REQUIRE(nothing);
  CHECK(nothing->grad_norm == 0);
  CHECK(nothing->idle_sequences == 7);
  CHECK(nothing->version == 1);
}

TEST_CASE("a gradient that is not finite changes nothing") {
  const parameter_arena arena =
      parameter_arena::random(small_config(architecture::qwen3), 8).value();
  trainer_options options;
  options.loss = preset_defaults(preset::sft);
  trainer learner = make_trainer(arena, options);
  std::vector<training_sequence> batch = some_batch();
  batch[0].advantage = std::numeric_limits<double>::infinity();
  const at::Tensor before = arena.flat.clone();
  const auto m = learner.step(batch);
  REQUIRE(m);
  CHECK(m->skipped);
  CHECK(learner.version() == 0);
  CHECK(learner.optimizer().steps == 0);
  CHECK(arena.flat.equal(before));
}

TEST_CASE("what is thrown on any thread of a step comes out of it, and does not end the process") {
  const parameter_arena arena =
      parameter_arena::random(small_config(architecture::qwen3), 8, at::kDouble).value();
  trainer_options options;
  options.loss = preset_defaults(preset::sft);
  options.pack.max_rows = 30;
  options.workers = 3;
  trainer learner = make_trainer(arena, options);
  const std::vector<training_sequence> batch = some_batch();
  REQUIRE(learner.gradients(batch, count(batch)));
  const at::Tensor expected = learner.gradient_arena().flat.clone();
  // A row is left of the embedding: LibTorch throws for every token that has another.
  const auto sizes = arena.weights.embedding.sizes().vec();
  arena.weights.embedding.resize_({1, sizes[1]});
  CHECK_THROWS_AS(learner.gradients(batch, count(batch)), std::exception);
  arena.weights.embedding.resize_(sizes);
  REQUIRE(learner.gradients(batch, count(batch)));
  CHECK(learner.gradient_arena().flat.equal(expected));
}

TEST_CASE("bad batches and options are refused with the value") {
  const parameter_arena arena =
      parameter_arena::random(small_config(architecture::qwen3), 8).value();
  trainer_options options;
  trainer learner = make_trainer(arena, options);
  const auto refused = [&](const std::vector<training_sequence>& batch, std::string_view part) {
    const auto result = learner.step(batch);
    REQUIRE_FALSE(result);
    CAPTURE(result.error().message);
    CHECK(result.error().message.find(part) != std::string::npos);
  };
  std::vector<training_sequence> batch = some_batch();
  refused(batch, "behaviour log-probs");
  refused({}, "without a trained token");
  for (training_sequence& s : batch)
    s.behaviour_log_probs.assign(s.tokens.size(), 0);
  const auto with = [&](auto change) {
    auto copy = batch;
    change(copy[1]);
    return copy;
  };
  refused(with([](auto& s) { s.loss_mask.pop_back(); }), "loss_mask");
  refused(with([](auto& s) { s.loss_mask[0] = 1; }), "first token");
  refused(with([](auto& s) { s.tokens[2] = 61; }), "token 61");
  refused(with([](auto& s) { s.temperature = 0; }), "temperature");
  refused(with([](auto& s) { s.versions = {1}; }), "versions");
  CHECK_FALSE(learner.step(batch, {1, 1}));
  options.loss.kl_coefficient = 0.1;
  trainer with_kl = make_trainer(arena, options);
  const auto no_reference = with_kl.step(batch);
  REQUIRE_FALSE(no_reference);
  CHECK(no_reference.error().message.find("reference") != std::string::npos);
  options.loss.clip_low = 2;
  CHECK_FALSE(trainer::make(arena, options));
  parallel_context two;
  two.dp = 2;
  CHECK_FALSE(trainer::make(arena, {}, two));
}
