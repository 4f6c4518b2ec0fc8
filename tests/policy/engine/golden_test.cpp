// The engine against transformers: logits of packed rows and of the cache, greedy completions, for
// every golden model.
#include <algorithm>
#include <cstring>
#include <filesystem>

#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "policy/engine/cached.hpp"
#include "policy/engine/generator.hpp"
#include "policy/engine/model.hpp"
#include "policy/weights/safetensors.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::policy;

namespace {

struct golden {
  std::filesystem::path dir;
  parameter_arena arena;
  base::json expected;
  safetensors_reader tensors;

  std::vector<std::vector<std::int64_t>> prompts() const { return expected["prompts"]; }
  at::Tensor logits(std::size_t i) const {
    const tensor_view* view = tensors.find("logits." + std::to_string(i));
    REQUIRE(view != nullptr);
    at::Tensor result = at::empty(view->shape, at::kFloat);
    std::memcpy(result.mutable_data_ptr(), view->data.data(), view->data.size());
    return result;
  }
};

std::vector<golden> load_goldens() {
  std::vector<golden> result;
  for (const auto& entry :
       std::filesystem::directory_iterator(test::source_dir() / "tests/golden/policy/models")) {
    golden g;
    g.dir = entry.path();
    auto arena = parameter_arena::load(g.dir);
    REQUIRE_MESSAGE(arena, g.dir.string() << ": " << (arena ? "" : arena.error().message));
    g.arena = *arena;
    g.expected = base::parse_json(base::read_file(g.dir / "expected.json").value()).value();
    g.tensors = safetensors_reader::open_file(g.dir / "expected.safetensors").value();
    result.push_back(std::move(g));
  }
  REQUIRE(result.size() >= 6);
  return result;
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble).sub(b.to(at::kDouble))).abs().max().item<double>();
}

}  // namespace

TEST_CASE("logits of all prompts packed into one pass are those of transformers within 1e-4") {
  for (const golden& g : load_goldens()) {
    CAPTURE(g.dir.filename().string());
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
    auto model = decoder::make(g.arena);
    REQUIRE(model);
    const auto rows = make_rows(g.arena.config, tokens, positions, segments, at::kCPU);
    REQUIRE(rows);
    for (const bool keep : {false, true}) {
      const at::Tensor logits =
          at::mm(model->forward(g.arena.weights, *rows, keep), g.arena.weights.head.t());
      for (std::size_t i = 0; i < segments.size(); ++i) {
        const auto [begin, end, a, b] = segments[i];
        CHECK(largest_difference(logits.narrow(0, begin, end - begin), g.logits(i)) < 1e-4);
      }
    }
  }
}

TEST_CASE("logits through the cache are those of transformers within 1e-4") {
  for (const golden& g : load_goldens()) {
    CAPTURE(g.dir.filename().string());
    auto model = cached_decoder::make(g.arena, 5, 2, 100);
    REQUIRE(model);
    for (std::size_t i = 0; i < g.prompts().size(); ++i) {
      const auto prompt = g.prompts()[i];
      const at::Tensor expected = g.logits(i);
      for (std::size_t begin = 0; begin < prompt.size(); begin += 5) {
        std::vector<cached_row> rows;
        for (std::size_t t = begin; t < std::min(begin + 5, prompt.size()); ++t)
          rows.push_back(
              {static_cast<std::int64_t>(i % 2), static_cast<std::int64_t>(t), prompt[t]});
        const at::Tensor logits = model->pass(g.arena.weights, rows, true);
        const auto count = static_cast<std::int64_t>(rows.size());
        CHECK(largest_difference(logits.narrow(0, 0, count),
                                 expected.narrow(0, static_cast<std::int64_t>(begin), count)) <
              1e-4);
      }
    }
  }
}

TEST_CASE("64 greedy tokens are those of transformers") {
  for (const golden& g : load_goldens()) {
    CAPTURE(g.dir.filename().string());
    generator_options options;
    options.rows = 4;
    options.slots = 3;
    auto engine = generator::make(g.arena, 0, options);
    REQUIRE(engine);
    std::vector<generation_request> requests;
    for (const auto& run : g.expected["greedy"]) {
      generation_request r;
      r.id = requests.size();
      r.prompt = run["prompt"].get<std::vector<std::int32_t>>();
      r.max_tokens = static_cast<std::int32_t>(run["tokens"].size());
      r.greedy = true;
      r.ignore_eos = true;
      requests.push_back(r);
    }
    REQUIRE(engine->submit(requests));
    const auto results = engine->run();
    REQUIRE(results.size() == requests.size());
    for (const generation_result& r : results) {
      CHECK(r.tokens == g.expected["greedy"][r.id]["tokens"].get<std::vector<std::int32_t>>());
      CHECK(r.tokens.size() == 64);
    }
  }
}
