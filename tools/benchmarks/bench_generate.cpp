// How fast a GPU generates with the policy engine: decoding alone, at a given mean context; the
// pause that new weights make; and long prompts with long completions in groups, prompts counted.
// Weights are random, of the shapes of Qwen2.5: speed does not depend on their values. Prints a
// line a measurement, with what is wanted on an H200 beside it, and one JSON object at the end.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/file.hpp"
#include "base/json.hpp"
#include "policy/device/library.hpp"
#include "policy/engine/device.hpp"
#include "policy/engine/generator.hpp"
#include "tools/model_shapes.hpp"

namespace {

using namespace quern;
using namespace quern::policy;

struct settings {
  std::string model = "0.5B", only, config;
  std::vector<int> batches{1, 64, 256};
  int context = 576, decode = 256, prompt = 4096, completion = 2048, group = 8, groups = 8;
  int prompt_rows = 8192, page = 64, rows = 256;
  bool exact = false, graphs = true;
};

/// Tokens a second that are wanted of decoding at a mean context of 576 on an H200; 0: none said.
double wanted_rate(const std::string& model, int batch) {
  if (model == "0.5B") return batch == 1 ? 950 : batch == 64 ? 40000 : batch == 256 ? 95000 : 0;
  if (model == "1.5B") return batch == 64 ? 25000 : batch == 256 ? 58000 : 0;
  return 0;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// `distinct` prompts of `length` tokens, each asked for `group` times.
std::vector<generation_request> ask(const settings& s, const model_config& c, int distinct,
                                    int group, int length, int completion, std::uint64_t round) {
  std::vector<generation_request> requests;
  for (int p = 0; p < distinct; ++p)
    for (int g = 0; g < group; ++g) {
      generation_request r;
      r.id = (round * 100000 + requests.size()) + 1;
      for (int t = 0; t < length; ++t)
        r.prompt.push_back(static_cast<std::int32_t>(
            (static_cast<std::int64_t>(t) * 7919 + p * 104729 + 5) % (c.vocab_size - 300)));
      r.max_tokens = completion;
      r.ignore_eos = true;
      r.seed = 7;
      requests.push_back(std::move(r));
    }
  static_cast<void>(s);
  return requests;
}

generator_options options_for(const settings& s, int slots, int capacity) {
  generator_options o;
  o.slots = slots;
  o.capacity = capacity;
  o.page = s.page;
  o.prompt_rows = s.prompt_rows;
  o.exact = s.exact;
  o.graphs = s.graphs;
  o.rows = s.rows;
  return o;
}

std::string text_of(double rate) {
  char text[64];
  std::snprintf(text, sizeof text, "%.0f", rate);
  return text;
}

/// Decoding alone: all prompts are computed before the clock starts, and it stops before the first
/// sequence ends. The mean context over the clocked steps is `context`.
base::expected<base::json> measure_decoding(const settings& s, const parameter_arena& arena,
                                            int batch) {
  const int warm = 32, length = s.context - s.decode / 2 - warm;
  if (length < 1)
    return base::fail(base::errc::invalid_argument, "context {} is too short for {} steps",
                      s.context, s.decode);
  // The first to decode are ahead by the passes that the other prompts take.
  const int completion = warm + s.decode + 16 + batch * length / s.prompt_rows;
  QUERN_TRY(auto engine, generator::make(arena, 0, options_for(s, batch, length + completion + 1)));
  QUERN_CHECK(engine.submit(ask(s, arena.config, batch, 1, length, completion, 0)));
  const std::int64_t begin = engine.counters().sampled_tokens;
  while (engine.counters().sampled_tokens - begin < std::int64_t{warm} * batch)
    engine.step();
  const auto start = std::chrono::steady_clock::now();
  const std::int64_t first = engine.counters().sampled_tokens;
  int steps = 0;
  for (; steps < s.decode; ++steps)
    engine.step();  // each waits for the results of the one before
  const double seconds = seconds_since(start);
  const auto tokens = static_cast<double>(engine.counters().sampled_tokens - first);
  const double rate = tokens / seconds, wanted = wanted_rate(s.model, batch);
  std::printf("decode %-5s batch %4d  context %d  %9.0f tok/s  %8.1f us a step  wanted %s\n",
              s.model.c_str(), batch, s.context, rate, seconds / steps * 1e6,
              wanted > 0 ? text_of(wanted).c_str() : "-");
  std::fflush(stdout);
  return base::json{{"what", "decode"},
                    {"model", s.model},
                    {"batch", batch},
                    {"context", s.context},
                    {"tokens_per_s", rate},
                    {"step_us", seconds / steps * 1e6},
                    {"wanted_tokens_per_s", wanted},
                    {"graphs", engine.counters().graphs}};
}

/// Everything from submission to the last token.
base::expected<base::json> measure_groups(const settings& s, const parameter_arena& arena) {
  const int sequences = s.group * s.groups;
  QUERN_TRY(auto engine,
            generator::make(arena, 0, options_for(s, sequences, s.prompt + s.completion + 1)));
  // Graphs and libraries first.
  QUERN_CHECK(engine.submit(ask(s, arena.config, s.groups, s.group, 64, 4, 1)));
  engine.run();
  const auto start = std::chrono::steady_clock::now();
  QUERN_CHECK(engine.submit(ask(s, arena.config, s.groups, s.group, s.prompt, s.completion, 2)));
  double prompts_done = 0;
  while (!engine.idle()) {
    engine.step();
    if (prompts_done == 0 &&
        engine.counters().prompt_rows >= std::int64_t{s.groups} * (s.prompt + 64))
      prompts_done = seconds_since(start);
  }
  const double seconds = seconds_since(start),
               tokens = static_cast<double>(sequences) * s.completion;
  std::printf(
      "groups %-5s %d of %d, %d in, %d out: %.0f sampled tok/s in %.2f s (prompts computed once: "
      "%.2f s), %lld preempted\n",
      s.model.c_str(), s.groups, s.group, s.prompt, s.completion, tokens / seconds, seconds,
      prompts_done, static_cast<long long>(engine.counters().preemptions));
  std::fflush(stdout);
  return base::json{{"what", "groups"},
                    {"model", s.model},
                    {"groups", s.groups},
                    {"group", s.group},
                    {"prompt", s.prompt},
                    {"completion", s.completion},
                    {"sampled_tokens_per_s", tokens / seconds},
                    {"seconds", seconds},
                    {"prompt_seconds", prompts_done},
                    {"preemptions", engine.counters().preemptions}};
}

/// New weights between two steps of decoding, where they lie on the device and are hashed already:
/// how much longer some steps take with them than without.
base::expected<base::json> measure_installing(const settings& s, const parameter_arena& arena) {
  constexpr int batch = 64, rounds = 12, window = 8, length = 448;
  const int completion = 64 + rounds * 2 * window;
  QUERN_TRY(auto engine, generator::make(arena, 0, options_for(s, batch, length + completion + 1)));
  QUERN_CHECK(engine.submit(ask(s, arena.config, batch, 1, length, completion, 3)));
  while (engine.counters().sampled_tokens < std::int64_t{32} * batch)
    engine.step();
  // A window begins with nothing under way and ends so; every other one begins with new weights.
  const auto clock_window = [&](auto&& before) -> base::expected<double> {
    wait_for(arena.flat.device());
    const auto start = std::chrono::steady_clock::now();
    QUERN_CHECK(before());
    for (int i = 0; i < window; ++i)
      engine.step();
    wait_for(arena.flat.device());
    return seconds_since(start);
  };
  std::vector<double> plain, pauses;
  for (int round = 1; round <= rounds; ++round) {
    QUERN_TRY(const double without, clock_window([] { return base::status(); }));
    plain.push_back(without);
    parameter_arena landing = engine.landing();
    landing.flat.copy_(arena.flat);
    const base::hash128 hash = landing.hash();
    QUERN_TRY(const double with, clock_window([&]() -> base::status {
                QUERN_CHECK(engine.announce(round, hash));
                return engine.commit(hash);
              }));
    pauses.push_back(with - without);
  }
  std::sort(plain.begin(), plain.end());
  const double step = plain[plain.size() / 2] / window;
  std::sort(pauses.begin(), pauses.end());
  const double middle = pauses[pauses.size() / 2], longest = pauses.back();
  std::printf(
      "install %-5s %.2f GB: pause %.0f us, the longest of %d %.0f us; a step of %d takes %.0f us; "
      "wanted at most 1 step, is %.2f\n",
      s.model.c_str(), static_cast<double>(arena.flat.nbytes()) / 1e9, middle * 1e6, rounds,
      longest * 1e6, batch, step * 1e6, middle / step);
  std::fflush(stdout);
  return base::json{{"what", "install"},
                    {"model", s.model},
                    {"bytes", arena.flat.nbytes()},
                    {"pause_us", middle * 1e6},
                    {"longest_pause_us", longest * 1e6},
                    {"step_us", step * 1e6},
                    {"wanted_steps", 1.0},
                    {"steps", middle / step}};
}

base::expected<base::json> measure(const settings& s) {
  QUERN_TRY(const model_config config, tools::qwen_shape(s.model));
  if (!s.config.empty())
    QUERN_CHECK(base::write_file_atomic(s.config, base::dump_pretty(config_json(config))));
  QUERN_TRY(const at::Device device, choose_device("cuda"));
  QUERN_TRY(parameter_arena arena, parameter_arena::zeros(config, at::kBFloat16, device));
  arena.fill_with_noise(0.02);
  base::json all = base::json::array();
  const auto asked = [&](const char* what) { return s.only.empty() || s.only == what; };
  if (asked("decode"))
    for (int batch : s.batches) {
      QUERN_TRY(base::json one, measure_decoding(s, arena, batch));
      all.push_back(std::move(one));
    }
  if (asked("install")) {
    QUERN_TRY(base::json one, measure_installing(s, arena));
    all.push_back(std::move(one));
  }
  if (asked("groups")) {
    QUERN_TRY(base::json one, measure_groups(s, arena));
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  settings s;
  CLI::App app("Tokens a second of generation on a GPU");
  app.add_option("--model", s.model, "shape: 0.5B, 1.5B or 7B of Qwen2.5");
  app.add_option("--only", s.only, "one of them; all without it")
      ->check(CLI::IsMember({"decode", "install", "groups"}));
  app.add_option("--config", s.config, "file to write the model's config.json to, first of all");
  app.add_option("--batch", s.batches, "batch sizes of decoding")->check(CLI::Range(1, 4096));
  app.add_option("--context", s.context, "mean context of decoding")->check(CLI::Range(64, 32000));
  app.add_option("--decode", s.decode, "steps that are clocked")->check(CLI::Range(8, 20000));
  app.add_option("--prompt", s.prompt, "tokens of a group's prompt")->check(CLI::Range(1, 32000));
  app.add_option("--completion", s.completion, "tokens of a completion")
      ->check(CLI::Range(1, 32000));
  app.add_option("--group", s.group, "members of a group")->check(CLI::Range(1, 512));
  app.add_option("--groups", s.groups, "groups")->check(CLI::Range(1, 512));
  app.add_option("--prompt-rows", s.prompt_rows, "prompt tokens of a pass")
      ->check(CLI::Range(1, 65536));
  app.add_option("--page", s.page, "positions of a page");
  app.add_option("--rows", s.rows, "rows of a pass, exact")->check(CLI::Range(1, 4096));
  app.add_flag("--exact", s.exact, "results that do not depend on the batch");
  app.add_flag("!--no-graphs", s.graphs, "kernel by kernel");
  CLI11_PARSE(app, argc, argv);
  load_cuda();
  try {
    const auto report = measure(s);
    if (!report) {
      std::fprintf(stderr, "bench_generate: %s\n", report.error().message.c_str());
      return 1;
    }
    std::printf("%s\n", base::dump_pretty(*report).c_str());
    for (const base::json& one : *report)
      if (one.value("steps", 0.0) > one.value("wanted_steps", 1.0)) {
        std::fprintf(stderr, "bench_generate: the pause of new weights is longer than wanted\n");
        return 1;
      }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_generate: %s\n", e.what());
    return 1;
  }
  return 0;
}
