// The engine against transformers: logits of packed rows and of the cache, greedy completions, for
// every golden model.
#include <algorithm>

#include <ATen/ops/mm.h>

#include "policy/engine/cached.hpp"
#include "policy/engine/generator.hpp"
#include "policy/engine/goldens.hpp"
#include "policy/engine/model.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::policy;
using namespace quern::test;

TEST_CASE("logits of all prompts packed into one pass are transformers' but for rounding") {
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
      std::vector<std::pair<at::Tensor, at::Tensor>> pairs;
      for (std::size_t i = 0; i < segments.size(); ++i) {
        const auto [begin, end, a, b] = segments[i];
        pairs.emplace_back(logits.narrow(0, begin, end - begin), g.logits(i));
        CHECK(largest_difference(pairs.back().first, pairs.back().second) <= g.tolerance);
      }
      CHECK(rms_difference(pairs) <= g.rms_tolerance());
    }
  }
}

TEST_CASE("logits through the cache are transformers' but for rounding") {
  for (const golden& g : load_goldens()) {
    CAPTURE(g.dir.filename().string());
    auto model = cached_decoder::make(g.arena, 5, 2, 100);
    REQUIRE(model);
    std::vector<std::pair<at::Tensor, at::Tensor>> pairs;
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
        pairs.emplace_back(logits.narrow(0, 0, count).clone(),
                           expected.narrow(0, static_cast<std::int64_t>(begin), count));
        CHECK(largest_difference(pairs.back().first, pairs.back().second) <= g.tolerance);
      }
    }
    CHECK(rms_difference(pairs) <= g.rms_tolerance());
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
    const auto requests = greedy_requests(g);
    REQUIRE(engine->submit(requests));
    const auto results = engine->run();
    REQUIRE(results.size() == requests.size());
    for (const generation_result& r : results) {
      CHECK(r.tokens == greedy_tokens(g, r.id));
      CHECK(r.tokens.size() == 64);
    }
  }
}
