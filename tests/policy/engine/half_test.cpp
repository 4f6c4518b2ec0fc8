// Training in bfloat16: gradients near those of float64, master weights that small steps do not get
// lost in, checkpoints that hold them, and the index of keys for attention over all segments.
#include <cmath>

#include "base/file.hpp"
#include "policy/engine/checkpoint.hpp"
#include "policy/engine/half_training.hpp"
#include "policy/engine/sharded_checkpoint.hpp"

using namespace quern;
using namespace quern::policy;
using doctest::Approx;
using namespace quern::test;

TEST_CASE("gradients in bfloat16 are those of float64 but for rounding, for each architecture") {
  for (const architecture arch : {architecture::qwen2, architecture::qwen3, architecture::llama})
    for (const preset loss : {preset::sft, preset::group_normalised}) {
      CAPTURE(model_type(arch));
      CAPTURE(to_string(loss));
      const auto exact = gradients_in(arch, at::kDouble, loss);
      const auto half = gradients_in(arch, at::kBFloat16, loss);
      const auto single = gradients_in(arch, at::kFloat, loss);
      // A policy gradient is weighted with ratios, which rounded log-probs move.
      CHECK(relative_error(half.flat, exact.flat) < (loss == preset::sft ? 0.03 : 0.05));
      CHECK(half.metrics.loss == Approx(exact.metrics.loss).epsilon(0.02));
      CHECK(half.metrics.entropy == Approx(exact.metrics.entropy).epsilon(0.01));
      // What is compared is bfloat16, and the comparison can tell.
      CHECK(relative_error(half.flat, exact.flat) > 1e-4);
      CHECK(relative_error(single.flat, exact.flat) < 1e-5);
    }
}

TEST_CASE("micro-batches and recomputing change bfloat16 gradients by sums in float32 alone") {
  const auto gradient = [](std::int64_t rows, recompute_mode recompute) {
    auto options = half_options(preset::group_normalised);
    options.pack.max_rows = rows;
    options.recompute = recompute;
    trainer learner =
        trainer::make(rounded_weights(architecture::qwen3, at::kBFloat16), options).value();
    const auto batch = half_batch();
    REQUIRE(learner.gradients(batch, count(batch)));
    return learner.gradient_arena().flat.clone();
  };
  const at::Tensor whole = gradient(60, recompute_mode::none);
  CHECK(gradient(60, recompute_mode::full).equal(whole));
  CHECK(gradient(60, recompute_mode::mlp).equal(whole));
  // Prompts of other micro-batches are other rows, whose gradients are rounded apart.
  CHECK(relative_error(gradient(1, recompute_mode::none), whole) < 0.02);
}

TEST_CASE("steps that bfloat16 cannot hold add up in the master weights") {
  auto options = half_options(preset::sft);
  options.optimizer.learning_rate = 2e-5;
  trainer learner =
      trainer::make(rounded_weights(architecture::qwen2, at::kBFloat16), options).value();
  const at::Tensor before = learner.weights().flat.clone();
  const at::Tensor masters = learner.optimizer().master.clone();
  const bool wide = masters.scalar_type() == at::kFloat;
  CHECK(wide);
  const auto batch = half_batch();
  REQUIRE(learner.step(batch));
  const auto moved = [&] {
    return learner.weights().flat.ne(before).to(at::kDouble).mean().item<double>();
  };
  const double at_once = moved();
  CHECK(learner.optimizer().master.ne(masters).to(at::kDouble).mean().item<double>() > 0.5);
  CHECK(at_once < 0.2);
  for (int i = 0; i < 60; ++i)
    REQUIRE(learner.step(batch));
  CHECK(moved() > 2 * at_once);
  CHECK(moved() > 0.3);
  CHECK(learner.weights().flat.equal(learner.optimizer().master.to(at::kBFloat16)));
}

TEST_CASE("bfloat16 learns what float32 learns") {
  const auto losses = [](at::ScalarType type, double rate) {
    auto options = half_options(preset::sft);
    options.optimizer.learning_rate = rate;
    trainer learner = trainer::make(rounded_weights(architecture::qwen2, type), options).value();
    const auto batch = half_batch();
    std::vector<double> result;
    for (int i = 0; i < 40; ++i)
      result.push_back(learner.step(batch).value().loss);
    return result;
  };
  const auto half = losses(at::kBFloat16, 3e-3), single = losses(at::kFloat, 3e-3);
  CHECK(half.back() < 0.8 * half.front());
  for (std::size_t i = 0; i < half.size(); ++i)
    CHECK(half[i] == Approx(single[i]).epsilon(0.03));
  const auto still = losses(at::kBFloat16, 0);
  CHECK(still.back() == Approx(still.front()).epsilon(1e-12));
}

TEST_CASE("a bfloat16 trainer that was saved goes on to the same bits, by both kinds of file") {
  const auto folder = base::temp_folder::make().value();
  auto options = half_options(preset::sft);
  options.optimizer.learning_rate = 1e-4;
  const auto fresh = [&] {
    return trainer::make(rounded_weights(architecture::qwen3, at::kBFloat16), options).value();
  };
  const auto batch = half_batch();
  trainer learner = fresh();
  for (int i = 0; i < 3; ++i)
    REQUIRE(learner.step(batch));
  REQUIRE(save_optimizer(learner.optimizer(), folder.path() / "optimizer.safetensors"));
  {
    checkpoint_writer writer;
    base::status written;
    writer.write(snapshot(learner.optimizer()), folder.path() / "shards", {},
                 [&](base::status end) { written = std::move(end); });
    writer.wait();
    REQUIRE(written);
  }
  const at::Tensor saved = learner.weights().flat.clone();
  REQUIRE(learner.step(batch));
  trainer by_file = fresh(), by_shards = fresh();
  REQUIRE(load_optimizer(by_file.optimizer(), folder.path() / "optimizer.safetensors"));
  REQUIRE(load_shards(by_shards.optimizer(), folder.path() / "shards"));
  REQUIRE(by_shards.gather_weights());
  for (trainer* other : {&by_file, &by_shards}) {
    REQUIRE(other->step(batch));
    CHECK(other->weights().flat.equal(learner.weights().flat));
    CHECK(other->optimizer().master.equal(learner.optimizer().master));
  }
  // A float32 run goes on in bfloat16: its weights are the masters.
  trainer single = trainer::make(rounded_weights(architecture::qwen3, at::kFloat), options).value();
  REQUIRE(single.step(batch));
  REQUIRE(save_optimizer(single.optimizer(), folder.path() / "single.safetensors"));
  trainer half = fresh();
  CHECK(load_optimizer(half.optimizer(), folder.path() / "single.safetensors"));
  CHECK(half.optimizer().steps == 1);
  // And the other way nothing that rounding left out is lost.
  trainer unrounded =
      trainer::make(rounded_weights(architecture::qwen3, at::kFloat), options).value();
  CHECK(load_optimizer(unrounded.optimizer(), folder.path() / "optimizer.safetensors"));
  CHECK_FALSE(unrounded.weights().flat.equal(saved.to(at::kFloat)));
  CHECK(unrounded.weights().flat.to(at::kBFloat16).equal(saved));
}

TEST_CASE("keys of a segment are its prefix's, then its own") {
  const std::vector<segment> segments = {{0, 5, 0, 0}, {5, 8, 0, 5}, {8, 12, 0, 5}, {12, 13, 0, 0}};
  const segment_keys keys = keys_of(segments);
  CHECK(keys.begin_rows == std::vector<std::int32_t>{0, 5, 8, 12, 13});
  CHECK(keys.begin_keys == std::vector<std::int32_t>{0, 5, 13, 22, 23});
  CHECK(keys.rows == std::vector<std::int64_t>{0, 1, 2, 3, 4, 0, 1, 2, 3,  4,  5, 6,
                                               7, 0, 1, 2, 3, 4, 8, 9, 10, 11, 12});
  CHECK(keys.shared);
  CHECK(keys.most_rows == 5);
  CHECK(keys.most_keys == 9);
  CHECK_FALSE(keys_of(std::vector<segment>{{0, 5, 0, 0}, {5, 9, 0, 0}}).shared);
}
