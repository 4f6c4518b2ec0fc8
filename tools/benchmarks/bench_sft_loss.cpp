// Fine-tuning by the project's own learner, written down so that it can be done again elsewhere:
// initial weights as a Hugging Face directory, every step's tokens and loss mask, and the loss and
// gradient norm of each step. tools/reference/training.py reads the folder and trains the same in
// plain PyTorch; tools/sft_loss_against_pytorch does both.
//
//   FOLDER/model/         weights before the first step, with config.json
//   FOLDER/training.json  precision, optimiser, and the lengths of each step's sequences
//   FOLDER/tokens.i32     all token ids, step after step, sequence after sequence (little endian)
//   FOLDER/loss_mask.u8   a byte a token; 1: it is predicted and trained
//   FOLDER/quern.jsonl    a line a step: loss, grad_norm, learning_rate, tokens
//
// A policy has something to learn: a sequence is a prompt of uniform noise, which is not trained,
// and a walk on one of two Markov chains over a part of the vocabulary. The prompt's first token
// says which, so attention matters as well as the last token.
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/random.hpp"
#include "policy/engine/checkpoint.hpp"
#include "policy/engine/device.hpp"
#include "policy/engine/threads.hpp"
#include "policy/engine/trainer.hpp"
#include "tools/model_shapes.hpp"

namespace {

using namespace quern;
using namespace quern::policy;
namespace fs = std::filesystem;

struct settings {
  std::string model = "tiny", device = "cpu", precision = "float32", out;
  int steps = 200, tokens = 0, micro_batch = 0, threads = 1;
  double learning_rate = 0;
  std::uint64_t seed = 1;
};

/// What goes with the size of a model; a small one learns with larger steps.
struct training_shape {
  model_config model;
  int tokens = 4096;  ///< of a step
  int longest = 512;
  int states = 128;  ///< of a Markov chain: tokens that occur
  double learning_rate = 5e-5;
};

base::expected<training_shape> shape_of(const std::string& name) {
  training_shape shape;
  if (name != "tiny") {
    QUERN_TRY(shape.model, tools::qwen_shape(name));
    return shape;
  }
  model_config& c = shape.model;
  c.arch = architecture::qwen2;
  c.vocab_size = 320;
  c.hidden_size = 64, c.intermediate_size = 160, c.layers = 2;
  c.heads = 4, c.kv_heads = 2, c.head_dim = 16;
  c.max_positions = 256;
  c.tied_embeddings = true;
  shape.tokens = 512;
  shape.longest = 128;
  shape.states = 64;
  shape.learning_rate = 2e-3;
  return shape;
}

/// Two chains over the same tokens. Each state has four successors, with odds that leave a loss of
/// 0.91 to whoever knows them.
class markov_text {
 public:
  markov_text(const training_shape& shape, std::uint64_t seed)
      : shape_(shape), seed_(seed), successors_(2 * static_cast<std::size_t>(shape.states)) {
    base::random_stream random(seed, "bench_sft_loss/chain");
    for (auto& of_state : successors_)
      for (int& next : of_state)
        next = static_cast<int>(random.below(static_cast<std::uint64_t>(shape.states)));
  }

  /// Sequences of uniformly drawn lengths, shape.tokens in all but for one token at most.
  [[nodiscard]] std::vector<training_sequence> batch(std::uint64_t step) const {
    base::random_stream random(seed_, "bench_sft_loss/batch", {step});
    std::vector<training_sequence> sequences;
    for (int left = shape_.tokens; left > 1;) {
      int length = static_cast<int>(random.between(shape_.longest / 8, shape_.longest));
      if (left - length < shape_.longest / 8) length = std::min(left, shape_.longest);
      sequences.push_back(sequence(length, random));
      left -= length;
    }
    return sequences;
  }

 private:
  training_sequence sequence(int length, base::random_stream& random) const {
    const auto states = static_cast<std::uint64_t>(shape_.states);
    const int prompt = std::max(1, static_cast<int>(random.between(length / 8, length / 2)));
    training_sequence one;
    int state = 0, chain = 0;
    for (int i = 0; i < length; ++i) {
      if (i < prompt) {
        state = static_cast<int>(random.below(states));
        if (i == 0) chain = state % 2;
      } else {
        const auto& next = successors_[static_cast<std::size_t>(chain * shape_.states + state)];
        const double draw = random.uniform();
        state = next[draw < 0.7 ? 0 : draw < 0.85 ? 1 : draw < 0.95 ? 2 : 3];
      }
      // Far apart, so that all of the embedding is used.
      one.tokens.push_back(
          static_cast<std::int32_t>(state * (shape_.model.vocab_size / shape_.states)));
      one.loss_mask.push_back(i < prompt ? 0 : 1);
    }
    return one;
  }

  const training_shape& shape_;
  std::uint64_t seed_;
  std::vector<std::array<int, 4>> successors_;
};

optimizer_options optimizer_of(const training_shape& shape, int steps) {
  optimizer_options o;
  o.learning_rate = shape.learning_rate;
  o.schedule = schedule_kind::cosine;
  o.warmup_steps = steps / 10;
  o.total_steps = steps;
  o.floor = 0.05;
  o.weight_decay = 0.05;
  return o;
}

base::json to_json(const optimizer_options& o) {
  return {{"learning_rate", o.learning_rate},
          {"schedule", to_string(o.schedule)},
          {"warmup_steps", o.warmup_steps},
          {"total_steps", o.total_steps},
          {"floor", o.floor},
          {"beta1", o.beta1},
          {"beta2", o.beta2},
          {"epsilon", o.epsilon},
          {"weight_decay", o.weight_decay},
          {"max_grad_norm", o.max_grad_norm}};
}

base::expected<trainer> make_learner(const settings& s, const training_shape& shape,
                                     at::Device device) {
  const bool half = s.precision == "bfloat16";
  model_config config = shape.model;
  // What a bfloat16 arena begins with is written exactly.
  config.dtype = half ? weight_dtype::bf16 : weight_dtype::f32;
  QUERN_TRY(parameter_arena arena,
            parameter_arena::random(config, s.seed, half ? at::kBFloat16 : at::kFloat, device));
  QUERN_CHECK(base::make_folders(fs::path(s.out) / "model"));
  QUERN_CHECK(save_model(arena, fs::path(s.out) / "model"));
  // As stage sft has them (actors/workers/sft_worker.cpp).
  trainer_options options;
  options.loss = preset_defaults(preset::sft);
  options.optimizer = optimizer_of(shape, s.steps);
  // Several micro-batches a step, so that their gradients are added up.
  options.pack.max_rows = s.micro_batch > 0 ? s.micro_batch : std::max(64, shape.tokens / 2);
  options.pack.share_prompts = false;
  options.workers = s.threads;
  return trainer::make(std::move(arena), options);
}

std::string_view bytes_of(const auto& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0])};
}

base::status run(const settings& s) {
  set_threads(1);  // the trainer's workers are the threads
  QUERN_TRY(const at::Device device, choose_device(s.device));
  QUERN_TRY(training_shape shape, shape_of(s.model));
  if (s.tokens > 0) {
    shape.tokens = s.tokens;
    shape.longest = std::min(shape.longest, std::max(16, s.tokens / 2));
  }
  if (s.learning_rate > 0) shape.learning_rate = s.learning_rate;
  QUERN_TRY(trainer learner, make_learner(s, shape, device));
  const markov_text text(shape, s.seed);
  base::json lengths = base::json::array();
  std::vector<std::int32_t> tokens;
  std::vector<std::uint8_t> mask;
  std::string log;
  for (int step = 1; step <= s.steps; ++step) {
    const auto batch = text.batch(static_cast<std::uint64_t>(step));
    base::json of_step = base::json::array();
    for (const training_sequence& one : batch) {
      of_step.push_back(one.tokens.size());
      tokens.insert(tokens.end(), one.tokens.begin(), one.tokens.end());
      mask.insert(mask.end(), one.loss_mask.begin(), one.loss_mask.end());
    }
    lengths.push_back(std::move(of_step));
    QUERN_TRY(const step_metrics m, learner.step(batch));
    if (m.skipped)
      return base::fail(base::errc::internal, "step {}: a gradient that is not finite", step);
    log += base::dump(base::json{{"step", step},
                                 {"loss", m.loss},
                                 {"grad_norm", m.grad_norm},
                                 {"learning_rate", m.learning_rate},
                                 {"tokens", m.tokens}}) +
           "\n";
    if (step == 1 || step % 25 == 0 || step == s.steps)
      std::printf("step %d of %d: loss %.4f, gradient norm %.3f\n", step, s.steps, m.loss,
                  m.grad_norm);
  }
  const fs::path folder = s.out;
  const base::json header{{"model", s.model},
                          {"precision", s.precision},
                          {"steps", s.steps},
                          {"optimizer", to_json(optimizer_of(shape, s.steps))},
                          {"sequence_lengths", lengths}};
  QUERN_CHECK(base::write_file_atomic(folder / "tokens.i32", bytes_of(tokens)));
  QUERN_CHECK(base::write_file_atomic(folder / "loss_mask.u8", bytes_of(mask)));
  QUERN_CHECK(base::write_file_atomic(folder / "training.json", base::dump(header) + "\n"));
  return base::write_file_atomic(folder / "quern.jsonl", log);
}

}  // namespace

int main(int argc, char** argv) {
  settings s;
  CLI::App app("Fine-tuning with random weights, written down to be repeated in PyTorch");
  app.add_option("--model", s.model, "tiny, or a shape of Qwen2.5: 0.5B, 1.5B or 7B");
  app.add_option("--steps", s.steps)->check(CLI::Range(2, 100000));
  app.add_option("--device", s.device)->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--precision", s.precision, "float32 or bfloat16")
      ->check(CLI::IsMember({"float32", "bfloat16"}));
  app.add_option("--tokens", s.tokens, "of a step; 0: what goes with the model")
      ->check(CLI::Range(0, 1000000));
  app.add_option("--micro-batch", s.micro_batch, "tokens of a backward pass; 0: half a step's")
      ->check(CLI::Range(0, 1000000));
  app.add_option("--learning-rate", s.learning_rate, "peak; 0: what goes with the model")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--threads", s.threads, "of the learner")->check(CLI::Range(1, 256));
  app.add_option("--seed", s.seed, "of weights and text");
  app.add_option("--out", s.out, "folder to write to")->required();
  CLI11_PARSE(app, argc, argv);
  if (s.device == "cuda") load_cuda();
  try {
    const auto ended = run(s);
    if (!ended) {
      std::fprintf(stderr, "bench_sft_loss: %s\n", ended.error().message.c_str());
      return 1;
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_sft_loss: %s\n", e.what());
    return 1;
  }
  return 0;
}
