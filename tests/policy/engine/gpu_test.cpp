// A step of training on a GPU is the step on the CPU.
#include "support/gpu.hpp"

#include "policy/engine/device.hpp"
#include "policy/engine/small_models.hpp"
#include "policy/engine/trainer.hpp"

using namespace quern;
using namespace quern::policy;
using doctest::Approx;

namespace {

// Before the first operator of the process: see load_cuda.
const bool loaded = [] {
  load_cuda();
  return true;
}();

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
  const auto device = choose_device("cuda");
  if (!test::go_on_with_gpu(loaded && device.has_value(), device ? "" : device.error().message))
    return;
  for (architecture arch : {architecture::qwen2, architecture::qwen3, architecture::llama}) {
    CAPTURE(model_type(arch));
    const learned host = learn_on(arch, at::kCPU, 1e-2);
    const learned gpu = learn_on(arch, *device, 1e-2);
    for (std::size_t step = 0; step < host.losses.size(); ++step)
      CHECK(gpu.losses[step] == Approx(host.losses[step]).epsilon(1e-9));
    CHECK(host.losses.back() < host.losses.front());
    CHECK(largest_difference(host.weights, gpu.weights) < 1e-8);
    // The comparison must be able to fail.
    const learned other = learn_on(arch, *device, 2e-2);
    CHECK(largest_difference(host.weights, other.weights) > 1e-4);
  }
}
