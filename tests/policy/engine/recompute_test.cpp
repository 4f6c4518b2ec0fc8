// Recomputing in the backward pass, what the memory planner says of activations, and how a batch
// is divided among ranks.
#include <algorithm>

#include "policy/engine/share.hpp"
#include "policy/engine/small_models.hpp"
#include "policy/engine/trainer.hpp"
#include "policy/weights/memory_plan.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::policy;
using doctest::Approx;
using quern::test::small_config;
using quern::test::some_tokens;

namespace {

std::vector<training_sequence> a_batch() {
  std::vector<training_sequence> batch;
  for (std::uint32_t i = 0; i < 5; ++i) {
    training_sequence s;
    s.tokens = some_tokens(12 + 7 * i, 40 + i);
    s.loss_mask.assign(s.tokens.size(), 1);
    s.loss_mask[0] = 0;
    s.advantage = 0.5 + i;
    batch.push_back(std::move(s));
  }
  return batch;
}

}  // namespace

TEST_CASE(
    "what is computed again in the backward pass has the same bits, and less memory is held") {
  for (const architecture arch : {architecture::qwen2, architecture::qwen3}) {
    const parameter_arena arena = parameter_arena::random(small_config(arch), 8).value();
    std::vector<at::Tensor> gradients;
    for (const recompute_mode mode :
         {recompute_mode::none, recompute_mode::mlp, recompute_mode::full}) {
      CAPTURE(to_string(mode));
      trainer_options options;
      options.loss = preset_defaults(preset::sft);
      options.pack.max_rows = 60;
      options.recompute = mode;
      trainer learner = trainer::make(arena, options).value();
      REQUIRE(learner.gradients(a_batch(), count(a_batch())));
      gradients.push_back(learner.gradient_arena().flat.clone());
      CHECK(gradients.back().equal(gradients.front()));
      CHECK(parse_recompute(to_string(mode)).value() == mode);
    }
    CHECK(gradients.front().abs().max().item<double>() > 0);
  }
  CHECK_FALSE(parse_recompute("some"));
}

TEST_CASE("the planner's activations are those that the decoder holds") {
  for (const auto& [arch, type] : {std::pair{architecture::qwen2, at::kFloat},
                                   {architecture::qwen3, at::kFloat},
                                   {architecture::qwen3, at::kBFloat16}})
    for (const recompute_mode mode :
         {recompute_mode::none, recompute_mode::mlp, recompute_mode::full}) {
      const parameter_arena arena = parameter_arena::random(small_config(arch), 8, type).value();
      auto model = decoder::make(arena, {}, mode).value();
      constexpr std::int64_t tokens = 48;
      const packed_rows rows = make_rows(
                                   arena.config, std::vector<std::int64_t>(tokens, 3),
                                   [] {
                                     std::vector<std::int64_t> positions(tokens);
                                     for (std::int64_t i = 0; i < tokens; ++i)
                                       positions[static_cast<std::size_t>(i)] = i;
                                     return positions;
                                   }(),
                                   {{0, tokens, 0, 0}}, at::kCPU)
                                   .value();
      const at::Tensor hidden = model.forward(arena.weights, rows, true).clone();
      parameter_arena gradients = arena.empty_as(at::kFloat, at::kCPU);
      model.backward(arena.weights, rows, hidden, gradients.weights);
      learner_demand demand;
      demand.micro_batch_tokens = tokens;
      demand.recompute = mode;
      demand.weight_bytes = type == at::kFloat ? 4 : 2;
      const memory_plan plan = plan_learner(arena.config, demand);
      const auto found = std::find_if(
          plan.items.begin(), plan.items.end(),
          [](const memory_item& item) { return item.purpose.find("activations") == 0; });
      REQUIRE(found != plan.items.end());
      CAPTURE(model_type(arch));
      CAPTURE(to_string(mode));
      // The reserve of each small buffer is rounded by itself.
      CHECK(static_cast<double>(found->bytes) ==
            Approx(static_cast<double>(model.activation_bytes())).epsilon(1e-3));
    }
}

TEST_CASE("every sequence is computed by one rank, and ranks have about as much to do") {
  std::vector<training_sequence> batch;
  for (std::uint32_t i = 0; i < 40; ++i) {
    training_sequence s;
    s.tokens = some_tokens(10 + (i * 37) % 400, i);
    s.advantage = i % 10 == 0 ? 0 : 1;
    batch.push_back(std::move(s));
  }
  for (const std::int32_t ranks : {1, 2, 3, 8, 64}) {
    CAPTURE(ranks);
    std::vector<int> computed(batch.size(), 0);
    std::vector<double> tokens;
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
      const auto mine = share_of(batch, rank, ranks);
      CHECK(std::is_sorted(mine.begin(), mine.end()));
      double sum = 0;
      for (const std::size_t index : mine) {
        ++computed[index];
        sum += batch[index].advantage == 0 ? 0 : static_cast<double>(batch[index].tokens.size());
      }
      tokens.push_back(sum);
    }
    CHECK(std::all_of(computed.begin(), computed.end(), [](int times) { return times == 1; }));
    if (ranks <= 8)
      CHECK(*std::max_element(tokens.begin(), tokens.end()) <
            1.2 * *std::min_element(tokens.begin(), tokens.end()));
  }
}
