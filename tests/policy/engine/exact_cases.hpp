// Sampling over two versions of weights, and scoring what was sampled at the weights of each: what
// exact mode must give to the bit, on any device.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "policy/engine/generation_requests.hpp"
#include "policy/engine/generator.hpp"
#include "policy/engine/small_models.hpp"
#include "support/test.hpp"

namespace quern::test {

using policy::generation_request;
using policy::generation_result;
using policy::generator;
using policy::generator_options;
using policy::parameter_arena;

constexpr std::uint64_t first_exact_id = 100;

inline generator made_of(const parameter_arena& arena, std::int64_t version,
                         const generator_options& o) {
  return std::move(generator::make(arena, version, o)).value();
}

/// Groups of three: prompts of different lengths, two temperatures, one greedy.
inline std::vector<generation_request> some_requests() {
  std::vector<generation_request> requests;
  for (std::uint64_t i = 0; i < 9; ++i) {
    requests.push_back(ask(first_exact_id + i,
                           some_tokens(5 + 13 * (i / 3), 1 + static_cast<std::uint32_t>(i / 3)),
                           static_cast<std::int32_t>(6 + 3 * i)));
    requests.back().temperature = i % 2 == 0 ? 1.0 : 0.7;
    requests.back().greedy = i == 4;
  }
  return requests;
}

/// Version 2 comes when some have ended, some decode and some wait for their prompt.
inline results_by_id sample_over_two_versions(const parameter_arena& old_weights,
                                              const parameter_arena& new_weights,
                                              const generator_options& o) {
  generator engine = made_of(old_weights, 1, o);
  REQUIRE(engine.submit(some_requests()));
  std::vector<generation_result> all;
  const auto keep = [&](std::vector<generation_result> some) {
    for (auto& r : some)
      all.push_back(std::move(r));
  };
  for (int i = 0; i < 17; ++i)
    keep(engine.step());
  REQUIRE(engine.announce(2, new_weights.hash()));
  engine.staging()->flat.copy_(new_weights.flat);
  REQUIRE(engine.commit());
  keep(engine.run());
  return by_id(std::move(all));
}

/// Log-probs of what was sampled, at a version's weights, all in one submission in reverse order.
inline results_by_id score(generator engine, const results_by_id& sampled) {
  std::vector<generation_request> requests;
  const auto asked = some_requests();
  for (auto r = asked.rbegin(); r != asked.rend(); ++r) {
    requests.push_back(*r);
    requests.back().given = sampled.at(r->id).tokens;
    requests.back().max_tokens = 1;  // not looked at
    requests.back().ignore_eos = false;
  }
  REQUIRE(engine.submit(requests));
  return by_id(engine.run());
}

struct comparison {
  int tokens = 0, different = 0, mixed = 0;
};

/// Tokens of a version against their scores at its weights.
inline void compare(const results_by_id& sampled, const results_by_id& scored, std::int64_t version,
                    comparison& sum) {
  for (const auto& [id, s] : sampled) {
    const generation_result& again = scored.at(id);
    CHECK(again.tokens == s.tokens);
    CHECK(again.reason == policy::finish_reason::length);
    sum.mixed += s.segments.size() > 1 ? 1 : 0;
    for (std::size_t part = 0; part < s.segments.size(); ++part) {
      if (s.segments[part].version != version) continue;
      const auto end = part + 1 < s.segments.size()
                           ? static_cast<std::size_t>(s.segments[part + 1].first)
                           : s.tokens.size();
      for (auto i = static_cast<std::size_t>(s.segments[part].first); i < end; ++i) {
        ++sum.tokens;
        sum.different +=
            again.log_probs[i] != s.log_probs[i] || again.raw_log_probs[i] != s.raw_log_probs[i]
                ? 1
                : 0;
      }
    }
  }
}

/// Samples with `o`, then scores every token at the weights of the version that sampled it.
inline comparison compare_versions(const policy::model_config& config, const generator_options& o) {
  const parameter_arena old_weights = parameter_arena::random(config, 3).value(),
                        new_weights = parameter_arena::random(config, 4).value();
  const results_by_id sampled = sample_over_two_versions(old_weights, new_weights, o);
  comparison sum;
  compare(sampled, score(made_of(old_weights, 1, o), sampled), 1, sum);
  compare(sampled, score(made_of(new_weights, 2, o), sampled), 2, sum);
  return sum;
}

}  // namespace quern::test
