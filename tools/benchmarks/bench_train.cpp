// How fast a GPU trains with the policy engine: optimiser steps on packed sequences of different
// lengths, after a warm-up, sustained. Weights are random, of the shapes of Qwen2.5. Prints tokens
// a second, the share of the chip's peak (MFU) and the memory that was planned, in use at most and
// taken from the device, with what is wanted on an H200 beside them; one JSON object at the end.
// With --ranks N: N processes over NCCL (ZeRO-1), one a visible GPU, each with --tokens of its own;
// --scaling makes one rank alone train first and prints how many times its speed N have.
//
// MFU counts what the model needs, not what is computed again: 6 operations a weight and token
// (a tied embedding once, as output projection), and of causal attention 6 a layer, query value and
// token of the sequence (arXiv 2204.02311, appendix B, halved for causality).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/random.hpp"
#include "base/subprocess.hpp"
#include "base/text.hpp"
#include "policy/collectives/communicator.hpp"
#include "policy/engine/device.hpp"
#include "policy/engine/sequence.hpp"
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
  std::int32_t ranks = 1, rank = -1;  ///< rank: of this process; -1: it starts the others
  std::string rendezvous;             ///< where ranks meet, and their reports are left
  bool scaling = false;
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

/// The ranks of a measurement; empty for one alone.
struct rank_group {
  std::shared_ptr<rendezvous> link;
  std::unique_ptr<communicator> ranks;
  int asked = 0;

  static base::expected<rank_group> join(const settings& s, at::Device device) {
    rank_group group;
    if (s.ranks == 1) return group;
    QUERN_TRY(group.link,
              rendezvous::join({"unix:" + s.rendezvous + "/rendezvous", s.rank, s.ranks, {}}));
    // Kernels that are built at the first step take what they take.
    group.link->busy(true);
    QUERN_TRY(auto transport, make_nccl(group.link, "gradients", device));
    group.ranks = std::make_unique<communicator>(group.link, std::move(transport));
    return group;
  }
  /// What rank 0 says, so that all take equally many steps.
  base::expected<bool> agree(bool mine) {
    if (!ranks) return mine;
    const std::string key = fmt::format("decision {}", asked++);
    if (link->rank() == 0) {
      QUERN_CHECK(link->set(key, mine ? "yes" : "no"));
      return mine;
    }
    QUERN_TRY(const std::string said, link->get(key));
    return said == "yes";
  }
};

base::expected<base::json> measure(const settings& s) {
  QUERN_TRY(const at::Device device, choose_device("cuda"));
  QUERN_TRY(const model_config config, tools::qwen_shape(s.model));
  QUERN_TRY(const recompute_mode recompute, parse_recompute(s.recompute));
  const bool half = s.precision == "bfloat16";
  QUERN_TRY(rank_group group, rank_group::join(s, device));
  learner_demand demand;
  demand.ranks = s.ranks;
  demand.weight_bytes = half ? 2 : 4;
  demand.micro_batch_tokens = s.micro_batch;
  demand.longest_sequence = s.longest;
  demand.loss_chunk = s.loss_chunk;
  demand.recompute = recompute;
  demand.gpu = true;
  const std::int64_t free_before = memory_of(device);
  const memory_plan plan = plan_learner(config, demand);
  if (s.rank <= 0) std::printf("%s", plan.table(free_before).c_str());
  QUERN_CHECK(check_learner(config, demand, free_before));
  layout place;
  place.ranks = s.ranks;
  QUERN_TRY(parameter_arena arena,
            parameter_arena::zeros(config, half ? at::kBFloat16 : at::kFloat, device, place));
  // The same on all ranks: LibTorch's generator begins alike in every process.
  arena.fill_with_noise(0.02);
  trainer_options options;
  options.loss = preset_defaults(preset::sft);
  options.optimizer.learning_rate = 1e-5;
  options.pack.max_rows = s.micro_batch;
  options.pack.share_prompts = false;
  options.loss_chunk = s.loss_chunk;
  options.recompute = recompute;
  parallel_context context;
  context.dp = s.ranks;
  context.dp_rank = std::max(s.rank, 0);
  QUERN_TRY(trainer learner, trainer::make(std::move(arena), options, context, group.ranks.get()));
  std::uint64_t step = 0;
  double first_loss = 0, loss = 0;
  const auto take_step = [&]() -> base::expected<double> {
    std::vector<training_sequence> mine;
    batch_totals totals;
    double operations = 0;
    for (std::int32_t rank = 0; rank < s.ranks; ++rank) {
      auto batch = batch_of(
          s, config, step * static_cast<std::uint64_t>(s.ranks) + static_cast<std::uint64_t>(rank));
      const batch_totals share = count(batch);
      totals.tokens += share.tokens;
      totals.sequences += share.sequences;
      operations += operations_of(config, batch);
      if (rank == context.dp_rank) mine = std::move(batch);
    }
    QUERN_TRY(const step_metrics m, learner.step(mine, totals));
    if (m.skipped) return base::fail(base::errc::internal, "a gradient that is not finite");
    loss = m.loss;
    if (++step == 1) first_loss = loss;
    return operations;
  };
  for (const auto start = std::chrono::steady_clock::now();;) {
    QUERN_TRY(const bool warm, group.agree(seconds_since(start) >= s.warm_s));
    if (warm) break;
    QUERN_CHECK(take_step());
  }
  const auto start = std::chrono::steady_clock::now();
  double operations = 0, tokens = 0;
  int steps = 0;
  for (;; ++steps) {
    QUERN_TRY(const bool enough, group.agree(seconds_since(start) >= s.seconds));
    if (enough) break;
    QUERN_TRY(const double one, take_step());  // ends with the step's metrics on the host
    operations += one;
    tokens += static_cast<double>(s.tokens) * s.ranks;
  }
  const allocator_peak peak = allocator_peak_of(device);
  const double seconds = seconds_since(start),
               mfu = 100 * operations / seconds / peak_flops / s.ranks,
               taken = gigabytes(free_before - memory_of(device)),
               planned = gigabytes(plan.total()), used = gigabytes(peak.used),
               reserved = gigabytes(peak.taken), wanted = half ? wanted_mfu(s.model) : 0;
  if (s.rank <= 0)
    std::printf(
        "train %-5s %s, %d ranks of %d tokens a step, recompute %s: %.0f tok/s, %.1f ms a step, "
        "MFU %.1f %% "
        "of bfloat16's peak (wanted %.0f), %.1f GB planned, %.1f GB taken (the allocator %.1f GB, "
        "of "
        "which %.1f GB were in use at most), loss %.3f -> %.3f\n",
        s.model.c_str(), s.precision.c_str(), s.ranks, s.tokens, s.recompute.c_str(),
        tokens / seconds, seconds / steps * 1e3, mfu, wanted, planned, taken, reserved, used,
        first_loss, loss);
  return base::json{{"what", "train"},
                    {"model", s.model},
                    {"precision", s.precision},
                    {"recompute", s.recompute},
                    {"ranks", s.ranks},
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

/// The numbers of the GPUs that this process may use.
std::vector<std::string> visible_gpus(std::int32_t wanted) {
  std::vector<std::string> names;
  if (const char* listed = std::getenv("CUDA_VISIBLE_DEVICES"); listed != nullptr) {
    for (const auto one : base::split(listed, ','))
      names.emplace_back(one);
  } else {
    for (std::int32_t i = 0; i < wanted; ++i)
      names.push_back(std::to_string(i));
  }
  return names;
}

constexpr base::nanoseconds_t longest_run = 3'600'000'000'000;

/// Ranks as processes of this program; the report of rank 0. `words`: the command line.
base::expected<base::json> measure_ranks(std::int32_t ranks,
                                         const std::vector<std::string>& words) {
  const auto gpus = visible_gpus(ranks);
  if (gpus.size() < static_cast<std::size_t>(ranks))
    return base::fail(base::errc::invalid_argument,
                      "--ranks {}, but CUDA_VISIBLE_DEVICES names {} GPUs: name one a rank", ranks,
                      gpus.size());
  QUERN_TRY(const auto folder, base::temp_folder::make("bench_train"));
  std::vector<base::subprocess> processes;
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    base::subprocess_spec spec{.argv = {"/proc/self/exe"}};
    spec.argv.insert(spec.argv.end(), words.begin(), words.end());
    for (const auto& word :
         {std::string("--ranks"), std::to_string(ranks), std::string("--rank"),
          std::to_string(rank), std::string("--rendezvous"), folder.path().string()})
      spec.argv.push_back(word);
    // In-fabric reductions need a service that shared hosts may lack.
    spec.environment = {"CUDA_VISIBLE_DEVICES=" + gpus[static_cast<std::size_t>(rank)],
                        "NCCL_NVLS_ENABLE=0"};
    QUERN_TRY(auto process, base::subprocess::start(spec));
    processes.push_back(std::move(process));
  }
  std::optional<std::string> failed;
  for (std::size_t rank = 0; rank < processes.size(); ++rank) {
    const auto end = processes[rank].wait(longest_run);
    if (!failed && (!end || end->code != 0 || end->signal != 0))
      failed = fmt::format("rank {}: {}", rank, end ? base::describe(*end) : "it does not end");
  }
  if (failed) return base::fail(base::errc::internal, "{}", *failed);
  QUERN_TRY(const std::string text, base::read_file(folder.path() / "report", 1 << 20));
  return base::parse_json(text);
}

constexpr double wanted_share = 3.7 / 4;

base::status start_ranks(const settings& s, const std::vector<std::string>& words) {
  base::json alone;
  if (s.scaling) {
    QUERN_TRY(alone, measure_ranks(1, words));
  }
  QUERN_TRY(base::json together, measure_ranks(s.ranks, words));
  if (s.scaling) {
    const double times =
        together.at("tokens_per_s").get<double>() / alone.at("tokens_per_s").get<double>();
    std::printf("%d ranks train %.2f times as fast as one (wanted %.2f)\n", s.ranks, times,
                wanted_share * s.ranks);
    together["times_of_one_rank"] = times;
  }
  std::printf("%s\n", base::dump_pretty(together).c_str());
  return {};
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
  app.add_option("--ranks", s.ranks, "processes, one a visible GPU, over NCCL")
      ->check(CLI::Range(1, 64))
      ->take_last();
  app.add_flag("--scaling", s.scaling,
               "one rank alone, too, and how many times its speed all have");
  app.add_option("--rank", s.rank)->group("");
  app.add_option("--rendezvous", s.rendezvous)->group("");
  CLI11_PARSE(app, argc, argv);
  if (s.longest < s.shortest) {
    std::fprintf(stderr, "bench_train: --longest %d is below --shortest %d\n", s.longest,
                 s.shortest);
    return 2;
  }
  if ((s.ranks > 1 || s.scaling) && s.rank < 0) {
    if (const auto done = start_ranks(s, {argv + 1, argv + argc}); !done) {
      std::fprintf(stderr, "bench_train: %s\n", done.error().message.c_str());
      return 1;
    }
    return 0;
  }
  load_cuda();
  try {
    const auto report = measure(s);
    if (!report) {
      std::fprintf(stderr, "bench_train: %s\n", report.error().message.c_str());
      return 1;
    }
    if (s.rendezvous.empty()) std::printf("%s\n", base::dump_pretty(*report).c_str());
    if (s.rank == 0)
      if (const auto left =
              base::write_file_atomic(s.rendezvous + "/report", base::dump_pretty(*report));
          !left) {
        std::fprintf(stderr, "bench_train: %s\n", left.error().message.c_str());
        return 1;
      }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_train: %s\n", e.what());
    return 1;
  }
  return 0;
}
