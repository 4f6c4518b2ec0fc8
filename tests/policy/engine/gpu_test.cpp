// A step of training on a GPU is the step on the CPU.
#include <cstdio>
#include <string>

#include "policy/engine/device.hpp"
#include "policy/engine/gpu_device.hpp"
#include "policy/engine/half_training.hpp"
#include "policy/engine/small_models.hpp"
#include "policy/engine/trainer.hpp"

using namespace quern;
using namespace quern::policy;
using doctest::Approx;

namespace {

std::vector<training_sequence> some_records() {
  std::vector<training_sequence> batch;
  for (std::uint32_t i = 0; i < 5; ++i) {
    training_sequence s;
    s.tokens = test::some_tokens(12 + 7 * i, 40 + i);
    s.loss_mask.assign(s.tokens.size(), 1);
    std::fill_n(s.loss_mask.begin(), 5, std::uint8_t{0});
    batch.push_back(std::move(s));
  }
  return batch;
}

struct learned {
  std::vector<double> losses;
  at::Tensor weights;
};

learned learn_on(architecture arch, at::Device device, double learning_rate) {
  const auto arena =
      parameter_arena::random(test::small_config(arch), 8, at::kDouble, device).value();
  trainer_options options;
  options.loss = preset_defaults(preset::sft);
  options.optimizer.learning_rate = learning_rate;
  trainer learner = trainer::make(arena, options).value();
  const auto batch = some_records();
  learned result;
  for (int step = 0; step < 4; ++step)
    result.losses.push_back(learner.step(batch).value().loss);
  result.weights = learner.weights().flat.to(at::kCPU);
  return result;
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return a.sub(b).abs().max().item<double>();
}

}  // namespace

TEST_CASE("losses and weights of training on a GPU are those of the CPU") {
  if (!test::go_on_with_cuda()) return;
  for (architecture arch : {architecture::qwen2, architecture::qwen3, architecture::llama}) {
    CAPTURE(model_type(arch));
    const learned host = learn_on(arch, at::kCPU, 1e-2);
    const learned gpu = learn_on(arch, test::cuda_device(), 1e-2);
    for (std::size_t step = 0; step < host.losses.size(); ++step)
      CHECK(gpu.losses[step] == Approx(host.losses[step]).epsilon(1e-9));
    CHECK(host.losses.back() < host.losses.front());
    CHECK(largest_difference(host.weights, gpu.weights) < 1e-8);
    // The comparison must be able to fail.
    const learned other = learn_on(arch, test::cuda_device(), 2e-2);
    CHECK(largest_difference(host.weights, other.weights) > 1e-4);
  }
}

TEST_CASE("gradients in bfloat16 on a GPU are those of float64 on the CPU but for rounding") {
  if (!test::go_on_with_cuda()) return;
  for (const architecture arch : {architecture::qwen2, architecture::qwen3, architecture::llama})
    for (const preset loss : {preset::sft, preset::group_normalised}) {
      CAPTURE(model_type(arch));
      CAPTURE(to_string(loss));
      const auto exact = test::gradients_in(arch, at::kDouble, loss);
      const auto half = test::gradients_in(arch, at::kBFloat16, loss, test::cuda_device());
      const auto single = test::gradients_in(arch, at::kFloat, loss, test::cuda_device());
      const double error = test::relative_error(half.flat, exact.flat);
      std::printf("gradients of %s: bfloat16 off by %.2g, float32 by %.2g\n",
                  std::string(model_type(arch)).c_str(), error,
                  test::relative_error(single.flat, exact.flat));
      CHECK(error < (loss == preset::sft ? 0.03 : 0.05));
      CHECK(error > 1e-4);
      CHECK(test::relative_error(single.flat, exact.flat) < 1e-3);
      CHECK(half.metrics.loss == Approx(exact.metrics.loss).epsilon(0.02));
    }
}

TEST_CASE("recomputing in bfloat16 on a GPU changes gradients by the order of additions alone") {
  if (!test::go_on_with_cuda()) return;
  for (const architecture arch : {architecture::qwen2, architecture::qwen3}) {
    CAPTURE(model_type(arch));
    const auto in_mode = [&](recompute_mode mode) {
      return test::gradients_in(arch, at::kBFloat16, preset::group_normalised, test::cuda_device(),
                                mode);
    };
    const auto kept = in_mode(recompute_mode::none);
    for (const recompute_mode mode : {recompute_mode::mlp, recompute_mode::full}) {
      CAPTURE(to_string(mode));
      const auto again = in_mode(mode);
      const double error = test::relative_error(again.flat, kept.flat);
      std::printf("gradients of %s, recompute %s: off by %.2g\n",
                  std::string(model_type(arch)).c_str(), std::string(to_string(mode)).c_str(),
                  error);
      CHECK(error < 0.01);
      CHECK(again.metrics.loss == Approx(kept.metrics.loss).epsilon(1e-4));
    }
    // The comparison must be able to fail.
    const auto other = test::gradients_in(arch, at::kBFloat16, preset::sft, test::cuda_device());
    CHECK(test::relative_error(other.flat, kept.flat) > 0.1);
  }
}

TEST_CASE("bfloat16 on a GPU learns what it learns on the CPU") {
  if (!test::go_on_with_cuda()) return;
  const auto losses = [](at::Device where, double rate) {
    auto options = test::half_options(preset::sft);
    options.optimizer.learning_rate = rate;
    trainer learner =
        trainer::make(test::rounded_weights(architecture::qwen3, at::kBFloat16, where), options)
            .value();
    const auto batch = test::half_batch();
    std::vector<double> result;
    for (int i = 0; i < 20; ++i)
      result.push_back(learner.step(batch).value().loss);
    return result;
  };
  const auto host = losses(at::kCPU, 3e-3), gpu = losses(test::cuda_device(), 3e-3);
  for (std::size_t i = 0; i < host.size(); ++i)
    CHECK(gpu[i] == Approx(host[i]).epsilon(0.03));
  CHECK(gpu.back() < 0.9 * gpu.front());
  // The comparison must be able to fail.
  CHECK(losses(test::cuda_device(), 0).back() == Approx(gpu.front()).epsilon(0.01));
}
