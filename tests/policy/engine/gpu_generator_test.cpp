// Generation on a GPU: the same tokens as on the host in float32, exact mode to the bit, graphs and
// late reading under pressure, bfloat16 against the learner's forward pass, training in float32
// with the GPU's kernels.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include <ATen/ops/abs.h>
#include <ATen/ops/mm.h>

#include "policy/device/library.hpp"
#include "policy/engine/arena_hash.hpp"
#include "policy/engine/device.hpp"
#include "policy/engine/evaluate.hpp"
#include "policy/engine/exact_cases.hpp"
#include "policy/engine/generation_requests.hpp"
#include "policy/engine/generator.hpp"
#include "policy/engine/goldens.hpp"
#include "policy/engine/gpu_device.hpp"
#include "policy/engine/small_models.hpp"
#include "policy/engine/trainer.hpp"

using namespace quern;
using namespace quern::policy;
using quern::test::by_id;
using quern::test::results_by_id;
using quern::test::small_config;
using quern::test::some_tokens;

namespace {

bool go_on_with_generation() {
  if (!test::go_on_with_cuda()) return false;
  const auto kernels = cuda_policy_kernels();
  if (!test::go_on_with_gpu(kernels.has_value(), kernels ? "" : kernels.error().message))
    return false;
  const auto graphs = cuda_graph_functions();
  return test::go_on_with_gpu(graphs.has_value(), graphs ? "" : graphs.error().message);
}

generator make_on_gpu(const parameter_arena& arena, const generator_options& settings) {
  generator_options options = settings;
  options.device = at::Device(at::kCUDA);
  options.method = generation_method::paged;
  auto made = generator::make(arena, 0, options);
  REQUIRE_MESSAGE(made.has_value(), (made ? "" : made.error().message));
  return std::move(made).value();
}

/// Groups of three with prompts from 3 tokens on.
std::vector<generation_request> asked(std::size_t count, std::int32_t vocabulary,
                                      std::size_t longest) {
  std::vector<generation_request> requests;
  for (std::size_t i = 0; i < count; ++i) {
    generation_request r;
    r.id = 100 + i;
    r.prompt = some_tokens(3 + (longest - 3) * (i / 3) / std::max<std::size_t>(1, (count - 1) / 3),
                           static_cast<std::uint32_t>(1 + i / 3), vocabulary);
    r.max_tokens = static_cast<std::int32_t>(4 + 2 * i);
    r.seed = 11;
    r.ignore_eos = true;
    r.temperature = i % 2 == 0 ? 1.0 : 0.7;
    r.greedy = i % 5 == 4;
    requests.push_back(std::move(r));
  }
  return requests;
}

results_by_id generate(generator engine, const std::vector<generation_request>& requests) {
  REQUIRE(engine.submit(requests));
  results_by_id map = by_id(engine.run());
  REQUIRE(map.size() == requests.size());
  return map;
}

struct agreement {
  std::size_t sequences = 0, equal = 0, tokens = 0, equal_tokens = 0;
  double largest = 0;  ///< difference of log-probs, up to the first token that differs
};

agreement compare_results(const results_by_id& a, const results_by_id& b) {
  agreement result;
  for (const auto& [id, x] : a) {
    const generation_result& y = b.at(id);
    ++result.sequences;
    result.equal += x.tokens == y.tokens ? 1 : 0;
    result.tokens += x.tokens.size();
    for (std::size_t i = 0; i < std::min(x.tokens.size(), y.tokens.size()); ++i) {
      if (x.tokens[i] != y.tokens[i]) break;
      ++result.equal_tokens;
      result.largest =
          std::max(result.largest, static_cast<double>(std::abs(x.log_probs[i] - y.log_probs[i])));
    }
  }
  return result;
}

void print(const char* what, const agreement& a) {
  std::printf(
      "%-52s %zu of %zu sequences equal, %zu of %zu tokens before the first difference, "
      "largest log-prob difference %.2e\n",
      what, a.equal, a.sequences, a.equal_tokens, a.tokens, a.largest);
  std::fflush(stdout);
}

/// A model with the head sizes that the tensor-core attention takes.
model_config medium_config(architecture arch) {
  model_config c = small_config(arch);
  c.vocab_size = 1000;
  c.hidden_size = 256;
  c.intermediate_size = 640;
  c.layers = 3;
  c.heads = 14;
  c.kv_heads = 2;
  c.head_dim = 64;
  c.max_positions = 1024;
  c.initializer_range = 0.06;
  return c;
}

}  // namespace

TEST_CASE("float32 on the GPU samples what the host samples") {
  if (!go_on_with_generation()) return;
  for (architecture arch : {architecture::qwen2, architecture::qwen3, architecture::llama}) {
    CAPTURE(model_type(arch));
    const parameter_arena arena = parameter_arena::random(small_config(arch), 3).value();
    const auto requests = asked(15, 61, 60);
    generator_options o;
    o.slots = 6;
    const auto expected = generate(std::move(generator::make(arena, 0, o)).value(), requests);
    o.full_precision = true;
    o.page = 32;
    for (std::int32_t prompt_rows : {7, 64}) {
      o.prompt_rows = prompt_rows;
      const agreement a = compare_results(expected, generate(make_on_gpu(arena, o), requests));
      print("float32, GPU and host", a);
      // One number may fall between the roundings of two sums.
      CHECK(a.equal + 1 >= a.sequences);
      CHECK(a.largest < 1e-4);
    }
    // The control: other weights.
    const parameter_arena other = parameter_arena::random(small_config(arch), 4).value();
    CHECK(compare_results(expected, generate(make_on_gpu(other, o), requests)).equal < 8);
  }
}

TEST_CASE("on the GPU, sequences that lose their pages go on as if they had kept them") {
  if (!go_on_with_generation()) return;
  const parameter_arena arena =
      parameter_arena::random(small_config(architecture::qwen3), 3).value();
  const auto requests = asked(15, 61, 60);
  generator_options o;
  o.slots = 8;
  o.full_precision = true;
  o.page = 32;
  const auto expected = generate(make_on_gpu(arena, o), requests);
  const model_config& c = arena.config;
  o.cache_bytes = 5 * c.layers * 2 * c.kv_size() * 32 * 4;
  generator engine = make_on_gpu(arena, o);
  REQUIRE(engine.submit(requests));
  results_by_id found = by_id(engine.run());
  const agreement a = compare_results(expected, found);
  print("float32 under shortage of pages", a);
  CHECK(a.equal + 1 >= a.sequences);
  CHECK(engine.counters().preemptions > 0);
  CHECK(engine.counters().graphs > 0);
}

TEST_CASE("exact on the GPU: a sample is the same bits alone, in company and after preemption") {
  if (!go_on_with_generation()) return;
  for (architecture arch : {architecture::qwen2, architecture::qwen3}) {
    const parameter_arena arena = parameter_arena::random(medium_config(arch), 5).value();
    auto requests = asked(12, 1000, 300);
    for (generation_request& r : requests)
      r.max_tokens += 64;  // so that each goes on into a page of its own
    generator_options o;
    o.exact = true;
    o.rows = 64;
    o.slots = 12;
    o.page = 32;
    const auto together = generate(make_on_gpu(arena, o), requests);
    // Pages for little more than one sequence of 400 positions.
    o.cache_bytes = 15 * arena.config.layers * 2 * arena.config.kv_size() * 32 * 2;
    o.capacity = 400;
    generator tight = make_on_gpu(arena, o);
    REQUIRE(tight.submit(requests));
    results_by_id pressed = by_id(tight.run());
    std::size_t equal = 0, equal_pressed = 0;
    for (const generation_request& r : requests) {
      const auto alone = generate(make_on_gpu(arena, o), {r});
      equal += alone.at(r.id).tokens == together.at(r.id).tokens &&
               alone.at(r.id).log_probs == together.at(r.id).log_probs;
      equal_pressed += pressed.at(r.id).tokens == together.at(r.id).tokens &&
                       pressed.at(r.id).log_probs == together.at(r.id).log_probs;
    }
    std::printf("exact, %s: %zu of %zu equal alone, %zu after %lld preemptions\n",
                std::string(model_type(arch)).c_str(), equal, requests.size(), equal_pressed,
                static_cast<long long>(tight.counters().preemptions));
    CHECK(equal == requests.size());
    CHECK(equal_pressed == requests.size());
    CHECK(tight.counters().preemptions > 0);
    CHECK(together.at(100).log_probs != together.at(101).log_probs);
    o.exact = false;  // for the record: how far the fast mode is from it
    o.cache_bytes = 0;
    print("bfloat16, fast and exact",
          compare_results(together, generate(make_on_gpu(arena, o), requests)));
  }
}

TEST_CASE("exact on the GPU: given tokens have the bits of sampled ones, whatever the version") {
  if (!go_on_with_generation()) return;
  for (const bool full : {false, true}) {
    generator_options o;
    o.device = at::Device(at::kCUDA, 0);
    o.slots = 6;
    o.rows = 64;
    o.full_precision = full;
    o.exact = true;
    const auto with = quern::test::compare_versions(medium_config(architecture::qwen2), o);
    o.exact = false;
    const auto without = quern::test::compare_versions(medium_config(architecture::qwen2), o);
    std::printf(
        "given tokens, %s: exact: %d of %d differ (%d sequences of two versions); fast: %d\n",
        full ? "float32" : "bfloat16", with.different, with.tokens, with.mixed, without.different);
    CHECK(with.tokens > 100);
    CHECK(with.mixed > 0);
    CHECK(with.different == 0);
    CHECK(without.different > 0);
  }
}

namespace {

/// What `slots` sequences at a time are given in bfloat16, against float32 of the same tokens.
void check_bfloat16(std::int32_t slots) {
  const parameter_arena arena =
      parameter_arena::random(medium_config(architecture::qwen2), 5).value();
  const auto requests = asked(24, 1000, 700);
  generator_options o;
  o.slots = slots;
  o.prompt_rows = 512;
  const auto results = generate(make_on_gpu(arena, o), requests);
  std::vector<training_sequence> sequences;
  for (const generation_request& r : requests) {
    training_sequence s;
    s.tokens = r.prompt;
    s.loss_mask.assign(r.prompt.size(), 0);
    s.tokens.insert(s.tokens.end(), results.at(r.id).tokens.begin(), results.at(r.id).tokens.end());
    s.loss_mask.resize(s.tokens.size(), 1);
    s.temperature = r.greedy ? 1 : r.temperature;
    sequences.push_back(std::move(s));
  }
  const auto mean_difference = [&](const parameter_arena& weights) {
    decoder model = std::move(decoder::make(weights)).value();
    const auto known = token_log_probs(model, weights.weights, sequences).value();
    double sum = 0, largest = 0, count = 0;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const generation_result& r = results.at(requests[i].id);
      for (std::size_t t = 0; t < r.tokens.size(); ++t) {
        const double d = std::abs(known[i][requests[i].prompt.size() + t] - r.log_probs[t]);
        sum += d;
        largest = std::max(largest, d);
        ++count;
      }
    }
    std::printf(
        "bfloat16, %d at a time, against float32: mean |difference| of log-probs %.2e, largest "
        "%.2e, over "
        "%.0f tokens\n",
        slots, sum / count, largest, count);
    return sum / count;
  };
  CHECK(mean_difference(arena) < 2e-2);
  parameter_arena other = arena.like();  // the control: a tenth of one layer's weights away
  other.flat.copy_(arena.flat.mul(1.1));
  CHECK(mean_difference(other) > 4e-2);
}

}  // namespace

TEST_CASE("bfloat16: log-probs are near those that float32 gives the same tokens") {
  if (!go_on_with_generation()) return;
  // Many, and so few that their products are by kernels of their own.
  for (const std::int32_t slots : {16, 3, 1})
    check_bfloat16(slots);
}

TEST_CASE("the hash of weights on the GPU is the host's") {
  if (!go_on_with_generation()) return;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const parameter_arena host =
        parameter_arena::random(small_config(architecture::qwen3), 3, type).value();
    parameter_arena there = host.empty_as(type, at::Device(at::kCUDA, 0));
    there.flat.copy_(host.flat);
    CHECK(hash_on_device(there.layout, there.flat) == host.hash());
    CHECK(there.hash() == host.hash());
    there.view("model.norm.weight")[3].mul_(1.5);
    CHECK_FALSE(there.hash() == host.hash());
  }
}

TEST_CASE("passes that are not captured give what graphs give") {
  if (!go_on_with_generation()) return;
  const parameter_arena arena =
      parameter_arena::random(medium_config(architecture::qwen2), 5).value();
  const auto requests = asked(12, 1000, 100);
  generator_options o;
  o.slots = 6;
  const auto with = generate(make_on_gpu(arena, o), requests);
  o.graphs = false;
  generator engine = make_on_gpu(arena, o);
  REQUIRE(engine.submit(requests));
  const results_by_id without = by_id(engine.run());
  CHECK(engine.counters().graphs == 0);
  const agreement a = compare_results(with, without);
  CHECK(a.equal == a.sequences);
  CHECK(a.largest == 0);
}

TEST_CASE("weights that change between two steps reach the graphs") {
  if (!go_on_with_generation()) return;
  const parameter_arena before =
                            parameter_arena::random(small_config(architecture::qwen3), 3).value(),
                        after =
                            parameter_arena::random(small_config(architecture::qwen3), 4).value();
  generator_options o;
  o.full_precision = true;
  const auto requests = asked(6, 61, 40);
  generator engine = make_on_gpu(before, o);
  REQUIRE(engine.submit(requests));
  engine.run();
  REQUIRE(engine.announce(7, after.hash()));
  engine.staging()->flat.copy_(after.flat);
  REQUIRE(engine.commit());
  REQUIRE(engine.submit(requests));
  results_by_id found = by_id(engine.run());
  REQUIRE(found.at(100).segments.size() == 1);
  CHECK(found.at(100).segments[0] == version_segment{0, 7, after.hash()});
  const agreement a = compare_results(generate(make_on_gpu(after, o), requests), found);
  CHECK(a.equal == a.sequences);
  CHECK(compare_results(generate(make_on_gpu(before, o), requests), found).equal < 4);
}

TEST_CASE("training in float32 with the GPU's kernels is the host's") {
  if (!go_on_with_generation()) return;
  for (architecture arch : {architecture::qwen2, architecture::qwen3, architecture::llama}) {
    CAPTURE(model_type(arch));
    std::vector<training_sequence> batch;
    for (std::uint32_t i = 0; i < 5; ++i) {
      training_sequence s;
      s.tokens = some_tokens(12 + 7 * i, 40 + i);
      s.loss_mask.assign(s.tokens.size(), 1);
      std::fill_n(s.loss_mask.begin(), 5, std::uint8_t{0});
      batch.push_back(std::move(s));
    }
    const auto losses = [&](at::Device device, double rate) {
      trainer_options options;
      options.loss = preset_defaults(preset::sft);
      options.optimizer.learning_rate = rate;
      trainer learner =
          trainer::make(parameter_arena::random(small_config(arch), 8, at::kFloat, device).value(),
                        options)
              .value();
      std::vector<double> result;
      for (int step = 0; step < 4; ++step)
        result.push_back(learner.step(batch).value().loss);
      return result;
    };
    const auto host = losses(at::kCPU, 1e-2), gpu = losses(at::kCUDA, 1e-2),
               other = losses(at::kCUDA, 2e-2);
    double error = 0, control = 0;
    for (std::size_t i = 0; i < host.size(); ++i) {
      error = std::max(error, std::abs(host[i] - gpu[i]));
      control = std::max(control, std::abs(host[i] - other[i]));
    }
    std::printf("training, float32: largest difference of a loss %.2e, control %.2e\n", error,
                control);
    CHECK(error < 1e-3);
    CHECK(control > 1e-2);
  }
}

TEST_CASE("on the GPU in float32, logits are those of transformers, and so are 64 greedy tokens") {
  if (!go_on_with_generation()) return;
  for (const test::golden& g : test::load_goldens()) {
    CAPTURE(g.dir.filename().string());
    parameter_arena arena = g.arena.empty_as(at::kFloat, at::kCUDA);
    arena.flat.copy_(g.arena.flat);
    std::vector<std::int64_t> tokens, positions;
    std::vector<segment> segments;
    for (const auto& prompt : g.prompts()) {
      const auto begin = static_cast<std::int64_t>(tokens.size());
      for (std::size_t i = 0; i < prompt.size(); ++i) {
        tokens.push_back(prompt[i]);
        positions.push_back(static_cast<std::int64_t>(i));
      }
      segments.push_back({begin, static_cast<std::int64_t>(tokens.size()), 0, 0});
    }
    decoder model = std::move(decoder::make(arena)).value();
    const auto rows = make_rows(arena.config, tokens, positions, segments, at::kCUDA);
    REQUIRE(rows);
    const at::Tensor logits =
        at::mm(model.forward(arena.weights, *rows, false), arena.weights.head.t()).to(at::kCPU);
    double error = 0;
    for (std::size_t i = 0; i < segments.size(); ++i)
      error = std::max(error,
                       test::largest_difference(
                           logits.narrow(0, segments[i].begin, segments[i].end - segments[i].begin),
                           g.logits(i)));
    generator_options o;
    o.slots = 3;
    o.full_precision = true;
    const auto requests = test::greedy_requests(g);
    std::size_t equal = 0;
    for (const auto& [id, r] : generate(make_on_gpu(g.arena, o), requests))
      equal += r.tokens == test::greedy_tokens(g, id) ? 1 : 0;
    std::printf("golden %-32s logits within %.1e, %zu of %zu greedy completions equal\n",
                g.dir.filename().c_str(), error, equal, requests.size());
    CHECK(error < 1e-4);
    CHECK(equal == requests.size());
  }
}
