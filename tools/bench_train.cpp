// How fast a GPU trains with the policy engine: optimiser steps on packed sequences of different
// lengths, after a warm-up, sustained. Weights are random, of the shapes of Qwen2.5. Prints tokens
// a second, the share of the chip's peak (MFU) and the memory that was planned, in use at most and
// taken from the device, with what is wanted on an H200 beside them; one JSON object at the end.
//
// MFU counts what the model needs, not what is computed again: 6 operations a weight and token
// (a tied embedding once, as output projection), and of causal attention 6 a layer, query value and
// token of the sequence (arXiv 2204.02311, appendix B, halved for causality).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/json.hpp"
#include "base/random.hpp"
#include "policy/engine/device.hpp"
#include "policy/engine/trainer.hpp"
#include "policy/weights/memory_plan.hpp"
#include "tools/model_shapes.hpp"

namespace {

using namespace quern;
using namespace quern::policy;

/// Dense bfloat16 of an H200 or H100 (SXM), operations a second.
constexpr double peak_flops = 989e12;

struct settings {
  std::string model = "1.5B", recompute = "none", precision = "bfloat16";
  int tokens = 16384, shortest = 256, longest = 2048, micro_batch = 16384, loss_chunk = 2048;
  double seconds = 30, warm_s = 5;
};

/// Of MFU, in per cent; 0: none said.
double wanted_mfu(const std::string& model) {
  return model == "1.5B" ? 40 : model == "0.5B" ? 30 : 0;
}

double gigabytes(std::int64_t bytes) {
  return static_cast<double>(bytes) / 1e9;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Sequences of uniformly drawn lengths, `tokens` in all; every token but the first is trained.
std::vector<training_sequence> batch_of(const settings& s, const model_config& c,
                                        std::uint64_t step) {
  base::random_stream random(step, "bench_train");
  std::vector<training_sequence> batch;
  for (int left = s.tokens; left > 1;) {
    const auto span = static_cast<std::uint64_t>(s.longest - s.shortest + 1);
    int length = s.shortest + static_cast<int>(random.below(span));
    length = std::min(length, left);
    training_sequence one;
    for (int t = 0; t < length; ++t)
      one.tokens.push_back(
          static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(c.vocab_size - 300))));
    one.loss_mask.assign(one.tokens.size(), 1);
    one.loss_mask[0] = 0;
    batch.push_back(std::move(one));
    left -= length;
  }
  return batch;
}

double operations_of(const model_config& c, const std::vector<training_sequence>& batch) {
  const auto q = static_cast<double>(c.q_size()), kv = static_cast<double>(c.kv_size()),
             d = static_cast<double>(c.hidden_size), i = static_cast<double>(c.intermediate_size),
             layers = static_cast<double>(c.layers);
  const double weights =
      layers * (d * (q + 2 * kv) + q * d + 3 * d * i) + static_cast<double>(c.vocab_size) * d;
  double sum = 0;
  for (const training_sequence& s : batch) {
    const auto length = static_cast<double>(s.tokens.size());
    sum += 6 * weights * length + 6 * layers * q * length * length;
  }
  return sum;
}

base::expected<base::json> measure(const settings& s) {
  QUERN_TRY(const at::Device device, choose_device("cuda"));
  QUERN_TRY(const model_config config, tools::qwen_shape(s.model));
  QUERN_TRY(const recompute_mode recompute, parse_recompute(s.recompute));
  const bool half = s.precision == "bfloat16";
  learner_demand demand;
  demand.weight_bytes = half ? 2 : 4;
  demand.micro_batch_tokens = s.micro_batch;
  demand.longest_sequence = s.longest;
  demand.loss_chunk = s.loss_chunk;
  demand.recompute = recompute;
  demand.gpu = true;
  const std::int64_t free_before = memory_of(device);
  const memory_plan plan = plan_learner(config, demand);
  std::printf("%s", plan.table(free_before).c_str());
  QUERN_CHECK(check_learner(config, demand, free_before));
  QUERN_TRY(parameter_arena arena,
            parameter_arena::zeros(config, half ? at::kBFloat16 : at::kFloat, device));
  arena.fill_with_noise(0.02);
  trainer_options options;
  options.loss = preset_defaults(preset::sft);
  options.optimizer.learning_rate = 1e-5;
  options.pack.max_rows = s.micro_batch;
  options.pack.share_prompts = false;
  options.loss_chunk = s.loss_chunk;
  options.recompute = recompute;
  QUERN_TRY(trainer learner, trainer::make(std::move(arena), options));
  std::uint64_t step = 0;
  double first_loss = 0, loss = 0;
  const auto take_step = [&]() -> base::expected<double> {
    const auto batch = batch_of(s, config, step++);
    QUERN_TRY(const step_metrics m, learner.step(batch));
    if (m.skipped) return base::fail(base::errc::internal, "a gradient that is not finite");
    loss = m.loss;
    if (step == 1) first_loss = loss;
    return operations_of(config, batch);
  };
  for (const auto start = std::chrono::steady_clock::now(); seconds_since(start) < s.warm_s;)
    QUERN_CHECK(take_step());
  const auto start = std::chrono::steady_clock::now();
  double operations = 0, tokens = 0;
  int steps = 0;
  for (; seconds_since(start) < s.seconds; ++steps) {
    QUERN_TRY(const double one, take_step());  // ends with the step's metrics on the host
    operations += one;
    tokens += s.tokens;
  }
  const allocator_peak peak = allocator_peak_of(device);
  const double seconds = seconds_since(start), mfu = 100 * operations / seconds / peak_flops,
               taken = gigabytes(free_before - memory_of(device)),
               planned = gigabytes(plan.total()), used = gigabytes(peak.used),
               reserved = gigabytes(peak.taken), wanted = half ? wanted_mfu(s.model) : 0;
  std::printf(
      "train %-5s %s, %d tokens a step, recompute %s: %.0f tok/s, %.1f ms a step, MFU %.1f %% "
      "of bfloat16's peak (wanted %.0f), %.1f GB planned, %.1f GB taken (the allocator %.1f GB, of "
      "which %.1f GB were in use at most), loss %.3f -> %.3f\n",
      s.model.c_str(), s.precision.c_str(), s.tokens, s.recompute.c_str(), tokens / seconds,
      seconds / steps * 1e3, mfu, wanted, planned, taken, reserved, used, first_loss, loss);
  return base::json{{"what", "train"},
                    {"model", s.model},
                    {"precision", s.precision},
                    {"recompute", s.recompute},
                    {"tokens_a_step", s.tokens},
                    {"seconds", seconds},
                    {"steps", steps},
                    {"tokens_per_s", tokens / seconds},
                    {"mfu_percent", mfu},
                    {"wanted_mfu_percent", wanted},
                    {"memory_gb", taken},
                    {"planned_gb", planned},
                    {"reserved_gb", reserved},
                    {"used_gb", used},
                    {"first_loss", first_loss},
                    {"loss", loss}};
}

}  // namespace

int main(int argc, char** argv) {
  settings s;
  CLI::App app("Training on a GPU: tokens a second and share of the peak");
  app.add_option("--model", s.model, "shape: 0.5B, 1.5B or 7B of Qwen2.5");
  app.add_option("--tokens", s.tokens, "of a step")->check(CLI::Range(64, 10000000));
  app.add_option("--shortest", s.shortest, "sequence")->check(CLI::Range(2, 32768));
  app.add_option("--longest", s.longest, "sequence")->check(CLI::Range(2, 32768));
  app.add_option("--micro-batch", s.micro_batch, "tokens of a backward pass")
      ->check(CLI::Range(64, 1000000));
  app.add_option("--loss-chunk", s.loss_chunk, "rows of logits at once")
      ->check(CLI::Range(1, 1000000));
  app.add_option("--recompute", s.recompute, "none, mlp or full");
  app.add_option("--precision", s.precision, "bfloat16 or float32")
      ->check(CLI::IsMember({"bfloat16", "float32"}));
  app.add_option("--seconds", s.seconds, "that are clocked")->check(CLI::Range(0.1, 3600.0));
  app.add_option("--warm-up", s.warm_s, "seconds before them")->check(CLI::Range(0.0, 600.0));
  CLI11_PARSE(app, argc, argv);
  if (s.longest < s.shortest) {
    std::fprintf(stderr, "bench_train: --longest %d is below --shortest %d\n", s.longest,
                 s.shortest);
    return 2;
  }
  load_cuda();
  try {
    const auto report = measure(s);
    if (!report) {
      std::fprintf(stderr, "bench_train: %s\n", report.error().message.c_str());
      return 1;
    }
    std::printf("%s\n", base::dump_pretty(*report).c_str());
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_train: %s\n", e.what());
    return 1;
  }
  return 0;
}
