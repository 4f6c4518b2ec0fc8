// How fast the policy engine is on this machine: tokens a second of generation and of training, for
// the shape of the demo policy (or of a model directory). Prints one JSON object.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/json.hpp"
#include "policy/engine/generator.hpp"
#include "policy/engine/kernels/table.hpp"
#include "policy/engine/threads.hpp"
#include "policy/engine/trainer.hpp"

namespace {

using namespace quern;
using namespace quern::policy;

struct settings {
  std::string model;
  int threads = 1, workers = 1, rows = 16, batch = 16, group = 8, prompt = 600, completion = 300,
      repeat = 2;
};

/// Qwen3 shape of 2.4 million parameters: the demo policy's.
model_config demo_shape() {
  model_config c;
  c.arch = architecture::qwen3;
  c.vocab_size = 512;
  c.hidden_size = 192;
  c.intermediate_size = 512;
  c.layers = 6;
  c.heads = 6;
  c.kv_heads = 2;
  c.head_dim = 32;
  c.max_positions = 1536;
  c.tied_embeddings = true;
  return c;
}

/// Wall and processor time since it was made: on a busy machine only the second says what the
/// engine costs.
struct stopwatch {
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  std::clock_t cpu = std::clock();
  double wall() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  double processor() const { return static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC; }
};

/// The best of several repetitions.
struct best_time {
  double wall = 1e300, processor = 1e300;
  void add(const stopwatch& watch) {
    wall = std::min(wall, watch.wall());
    processor = std::min(processor, watch.processor());
  }
};

std::vector<generation_request> requests_of(const settings& s, const model_config& config,
                                            std::uint64_t round) {
  std::vector<generation_request> requests;
  for (int i = 0; i < s.batch; ++i) {
    generation_request r;
    r.id = round * 1000 + static_cast<std::uint64_t>(i);
    for (int t = 0; t < s.prompt; ++t)
      r.prompt.push_back(
          static_cast<std::int32_t>((t * 31 + i / s.group * 17 + 5) % config.vocab_size));
    r.max_tokens = s.completion;
    r.ignore_eos = true;
    requests.push_back(r);
  }
  return requests;
}

base::json measure_generation(generator& engine, const settings& s, const model_config& config,
                              std::vector<generation_request>& requests,
                              std::vector<generation_result>& results) {
  best_time best;
  for (int i = 0; i <= s.repeat; ++i) {
    requests = requests_of(s, config, static_cast<std::uint64_t>(i));
    const stopwatch watch;
    if (auto ok = engine.submit(requests); !ok) return {{"error", ok.error().message}};
    results = engine.run();
    if (i > 0) best.add(watch);
  }
  const generator_counters& c = engine.counters();
  return {{"seconds", best.wall},
          {"processor_seconds", best.processor},
          {"completion_tokens_per_s", s.batch * s.completion / best.wall},
          {"forward_passes", c.forward_passes / (s.repeat + 1)},
          {"prompt_rows", c.prompt_rows / (s.repeat + 1)},
          {"padded_rows", c.padded_rows / (s.repeat + 1)}};
}

std::vector<training_sequence> sequences_of(const std::vector<generation_request>& requests,
                                            std::vector<generation_result> results) {
  std::sort(results.begin(), results.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  std::vector<training_sequence> batch;
  for (std::size_t i = 0; i < results.size(); ++i) {
    training_sequence q;
    q.tokens = requests[i].prompt;
    q.loss_mask.assign(q.tokens.size(), 0);
    q.behaviour_log_probs.assign(q.tokens.size(), 0);
    q.tokens.insert(q.tokens.end(), results[i].tokens.begin(), results[i].tokens.end());
    q.loss_mask.resize(q.tokens.size(), 1);
    q.behaviour_log_probs.insert(q.behaviour_log_probs.end(), results[i].log_probs.begin(),
                                 results[i].log_probs.end());
    q.advantage = i % 2 == 0 ? 1 : -1;
    batch.push_back(std::move(q));
  }
  return batch;
}

base::json measure_training(const parameter_arena& arena, const settings& s,
                            const std::vector<training_sequence>& batch, bool share) {
  trainer_options options;
  options.optimizer.learning_rate = 0;  // so that every repetition does the same
  options.pack.share_prompts = share;
  options.workers = s.workers;
  auto learner = trainer::make(arena, options);
  if (!learner) return {{"error", learner.error().message}};
  best_time best;
  base::json metrics;
  for (int i = 0; i <= s.repeat; ++i) {
    const stopwatch watch;
    const auto m = learner->step(batch);
    if (!m) return {{"error", m.error().message}};
    if (i > 0) best.add(watch);
    metrics = to_json(*m);
  }
  double tokens = 0;
  for (const training_sequence& q : batch)
    tokens += static_cast<double>(q.tokens.size());
  return {{"seconds", best.wall},
          {"processor_seconds", best.processor},
          {"tokens_per_s", tokens / best.wall},
          {"metrics", metrics}};
}

}  // namespace

int main(int argc, char** argv) {
  settings s;
  CLI::App app("Tokens a second of the policy engine");
  app.add_option("--model", s.model,
                 "Hugging Face directory; without it random weights of the demo policy's shape");
  app.add_option("--threads", s.threads, "threads of LibTorch")->check(CLI::Range(1, 256));
  app.add_option("--workers", s.workers, "threads of the trainer")->check(CLI::Range(1, 256));
  app.add_option("--rows", s.rows, "rows of a generation pass")->check(CLI::Range(1, 4096));
  app.add_option("--batch", s.batch, "sequences")->check(CLI::Range(1, 4096));
  app.add_option("--group", s.group, "sequences of one prompt")->check(CLI::Range(1, 4096));
  app.add_option("--prompt", s.prompt, "prompt tokens")->check(CLI::Range(1, 100000));
  app.add_option("--completion", s.completion, "completion tokens")->check(CLI::Range(1, 100000));
  app.add_option("--repeat", s.repeat, "measured repetitions; the best counts")
      ->check(CLI::Range(1, 100));
  CLI11_PARSE(app, argc, argv);
  policy::set_threads(s.threads);

  auto arena =
      s.model.empty() ? parameter_arena::random(demo_shape(), 1) : parameter_arena::load(s.model);
  if (!arena) {
    std::fprintf(stderr, "bench_policy: %s\n", arena.error().message.c_str());
    return 1;
  }
  generator_options options;
  options.rows = s.rows;
  options.slots = std::max(s.batch, s.group);
  auto engine = generator::make(*arena, 0, options);
  if (!engine) {
    std::fprintf(stderr, "bench_policy: %s\n", engine.error().message.c_str());
    return 1;
  }
  std::vector<generation_request> requests;
  std::vector<generation_result> results;
  base::ordered_json report;
  report["kernels"] = kernels::host_kernels<float>().isa;
  report["threads"] = s.threads;
  report["workers"] = s.workers;
  report["parameters"] = parameter_count(arena->config);
  report["generation"] = measure_generation(*engine, s, arena->config, requests, results);
  const std::vector<training_sequence> batch = sequences_of(requests, results);
  report["training_shared_prompts"] = measure_training(*arena, s, batch, true);
  report["training_every_prompt"] = measure_training(*arena, s, batch, false);
  std::printf("%s\n", base::dump_pretty(report).c_str());
  return 0;
}
