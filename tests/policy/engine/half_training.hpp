// What tests of bfloat16 training share, on either device: sequences, weights that bfloat16 can
// hold, gradients by element type.
#pragma once

#include <vector>

#include "policy/engine/small_models.hpp"
#include "policy/engine/trainer.hpp"
#include "support/test.hpp"

namespace quern::test {

using namespace quern::policy;

/// Groups that share prompts, and one alone.
inline std::vector<training_sequence> half_batch() {
  std::vector<training_sequence> batch;
  for (std::uint32_t i = 0; i < 7; ++i) {
    training_sequence s;
    s.tokens = some_tokens(4 + 9 * (i / 3), 50 + i / 3);
    const std::size_t prompt = s.tokens.size();
    const auto completion = some_tokens(3 + 4 * i, 90 + i);
    s.tokens.insert(s.tokens.end(), completion.begin(), completion.end());
    s.loss_mask.assign(s.tokens.size(), 1);
    std::fill_n(s.loss_mask.begin(), prompt, std::uint8_t{0});
    s.advantage = i % 2 == 0 ? 0.8 + 0.1 * i : -0.5 - 0.1 * i;
    s.behaviour_log_probs.assign(s.tokens.size(), -4.1F);
    batch.push_back(std::move(s));
  }
  return batch;
}

inline trainer_options half_options(preset loss) {
  trainer_options options;
  options.loss = preset_defaults(loss);
  options.pack.max_rows = 60;
  options.valid_tokens = 61;
  return options;
}

/// The same weights, which bfloat16 can hold, in another type.
inline parameter_arena rounded_weights(architecture arch, at::ScalarType type,
                                       at::Device device = at::kCPU) {
  const auto half =
      parameter_arena::random(small_config(arch, arch == architecture::llama), 8, at::kBFloat16)
          .value();
  auto arena = half.empty_as(type, device);
  arena.flat.copy_(half.flat);
  return arena;
}

struct half_gradients {
  at::Tensor flat;
  step_metrics metrics;
};

inline half_gradients gradients_in(architecture arch, at::ScalarType type, preset loss,
                                   at::Device device = at::kCPU,
                                   recompute_mode recompute = recompute_mode::none) {
  auto options = half_options(loss);
  options.recompute = recompute;
  trainer learner = trainer::make(rounded_weights(arch, type, device), options).value();
  const auto batch = half_batch();
  const auto metrics = learner.gradients(batch, count(batch)).value();
  const bool wide = learner.gradient_arena().flat.scalar_type() ==
                    (type == at::kDouble ? at::kDouble : at::kFloat);
  CHECK(wide);
  return {learner.gradient_arena().flat.to(at::kCPU, at::kDouble), metrics};
}

inline double relative_error(const at::Tensor& a, const at::Tensor& b) {
  return a.sub(b).norm().item<double>() / b.norm().item<double>();
}

}  // namespace quern::test
