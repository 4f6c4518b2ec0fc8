// Generation: the same result alone and in any company, stops, cancels, versions, refusals.
#include "policy/engine/generator.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "policy/engine/evaluate.hpp"
#include "policy/engine/generation_requests.hpp"
#include "policy/engine/sampler.hpp"
#include "policy/engine/small_models.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::policy;
using quern::test::ask;
using quern::test::by_id;
using quern::test::small_config;
using quern::test::some_tokens;

namespace {

parameter_arena small_policy(architecture arch = architecture::qwen3, std::uint64_t seed = 3) {
  return parameter_arena::random(small_config(arch), seed).value();
}

generator make_engine(const parameter_arena& arena, std::int32_t rows = 4, std::int32_t slots = 6) {
  generator_options options;
  options.rows = rows;
  options.slots = slots;
  return std::move(generator::make(arena, 0, options)).value();
}

generation_result alone(const parameter_arena& arena, const generation_request& request) {
  generator engine = make_engine(arena);
  REQUIRE(engine.submit({&request, 1}));
  auto results = engine.run();
  REQUIRE(results.size() == 1);
  return results[0];
}

}  // namespace

TEST_CASE("a sample is the same bits alone, in a group, in a full batch and in any order") {
  for (architecture arch : {architecture::qwen2, architecture::qwen3, architecture::llama}) {
    const parameter_arena arena = small_policy(arch);
    std::vector<generation_request> requests;
    for (std::uint64_t i = 0; i < 12; ++i)  // four prompts of different lengths, groups of three,
                                            // more than there are slots and rows
      requests.push_back(ask(100 + i,
                             some_tokens(3 + 7 * (i / 3), static_cast<std::uint32_t>(1 + i / 3)),
                             static_cast<std::int32_t>(5 + 3 * i)));
    std::map<std::uint64_t, generation_result> single;
    for (const generation_request& r : requests)
      single[r.id] = alone(arena, r);
    const auto compare = [&](std::vector<generation_result> results) {
      REQUIRE(results.size() == requests.size());
      for (const generation_result& r : results) {
        CHECK(r.tokens == single[r.id].tokens);
        CHECK(r.log_probs == single[r.id].log_probs);  // bits
      }
    };
    for (std::int32_t slots : {3, 6, 12}) {
      generator engine = make_engine(arena, 4, slots);
      REQUIRE(engine.submit(requests));
      compare(engine.run());
    }
    std::reverse(requests.begin(), requests.end());
    generator engine = make_engine(arena);
    for (const generation_request& r : requests) {  // one by one, into a running batch
      REQUIRE(engine.submit({&r, 1}));
      CHECK(engine.step().empty());
    }
    compare(engine.run());
  }
}

TEST_CASE("a row's bits do not depend on its place among the rows, at the widths that are run") {
  model_config c = small_config(architecture::qwen3, true);
  c.hidden_size = 192;
  c.intermediate_size = 512;
  c.head_dim = 32;
  c.vocab_size = 512;
  const parameter_arena arena = parameter_arena::random(c, 5).value();
  generator_options options;
  options.rows = 16;
  options.slots = 16;
  std::vector<generation_request> requests;
  for (std::uint64_t i = 0; i < 16; ++i)
    requests.push_back(ask(i, some_tokens(5 + i, static_cast<std::uint32_t>(i), 512), 12));
  generator together = std::move(generator::make(arena, 0, options)).value();
  REQUIRE(together.submit(requests));
  auto all = by_id(together.run());
  for (const generation_request& r : requests) {
    generator one = std::move(generator::make(arena, 0, options)).value();
    REQUIRE(one.submit({&r, 1}));
    const auto result = one.run();
    CHECK(result[0].tokens == all[r.id].tokens);
    CHECK(result[0].log_probs == all[r.id].log_probs);
  }
}

TEST_CASE("recorded log-probs are those that training computes") {
  const parameter_arena arena = small_policy();
  std::vector<generation_request> requests;
  for (std::uint64_t i = 0; i < 6; ++i) {
    requests.push_back(ask(i, some_tokens(9, static_cast<std::uint32_t>(i / 2)), 30));
    requests.back().temperature = i % 2 == 0 ? 1.0 : 0.7;
  }
  generator engine = make_engine(arena);
  REQUIRE(engine.submit(requests));
  auto results = by_id(engine.run());
  std::vector<training_sequence> sequences;
  for (const generation_request& r : requests) {
    training_sequence s;
    s.tokens = r.prompt;
    s.loss_mask.assign(r.prompt.size(), 0);
    s.tokens.insert(s.tokens.end(), results[r.id].tokens.begin(), results[r.id].tokens.end());
    s.loss_mask.resize(s.tokens.size(), 1);
    s.temperature = r.temperature;
    sequences.push_back(s);
  }
  decoder model = std::move(decoder::make(arena)).value();
  const auto at_temperature = token_log_probs(model, arena.weights, sequences);
  for (training_sequence& s : sequences)
    s.temperature = 1;
  const auto raw = token_log_probs(model, arena.weights, sequences);
  REQUIRE(at_temperature);
  REQUIRE(raw);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const generation_result& r = results[requests[i].id];
    REQUIRE(r.log_probs.size() == r.tokens.size());
    for (std::size_t t = 0; t < r.tokens.size(); ++t) {
      CHECK(std::abs((*at_temperature)[i][requests[i].prompt.size() + t] - r.log_probs[t]) < 2e-5);
      CHECK(std::abs((*raw)[i][requests[i].prompt.size() + t] - r.raw_log_probs[t]) < 2e-5);
    }
  }
}

TEST_CASE("stop ids, end tokens, lengths") {
  parameter_arena arena = small_policy();
  const generation_result free_run = alone(arena, ask(1, some_tokens(6, 2), 40));
  REQUIRE(free_run.tokens.size() == 40);
  CHECK(free_run.reason == finish_reason::length);
  const std::int32_t stop = free_run.tokens[17];
  const auto first = static_cast<std::size_t>(
      std::find(free_run.tokens.begin(), free_run.tokens.end(), stop) - free_run.tokens.begin());
  generation_request r = ask(1, some_tokens(6, 2), 40);
  r.stop_ids = {stop};
  generation_result stopped = alone(arena, r);
  CHECK(stopped.reason == finish_reason::stop);
  CHECK(stopped.tokens == std::vector<std::int32_t>(
                              free_run.tokens.begin(),
                              free_run.tokens.begin() + static_cast<std::ptrdiff_t>(first) + 1));

  arena.config.eos_tokens = {stop};
  CHECK(alone(arena, ask(1, some_tokens(6, 2), 40)).tokens == free_run.tokens);  // ignore_eos
  r = ask(1, some_tokens(6, 2), 40);
  r.ignore_eos = false;
  CHECK(alone(arena, r).tokens == stopped.tokens);

  const generation_result full = alone(arena, ask(2, some_tokens(90, 4), 1000));  // 96 positions
  CHECK(full.tokens.size() == 6);
  CHECK(full.reason == finish_reason::length);
}

TEST_CASE("cancelled requests end with what they have and leave the others alone") {
  const parameter_arena arena = small_policy();
  const std::vector<generation_request> requests{
      ask(1, some_tokens(30, 2)), ask(2, some_tokens(30, 2)), ask(3, some_tokens(30, 2)),
      ask(4, some_tokens(8, 9)), ask(5, some_tokens(8, 10))};
  generator engine = make_engine(arena, 4, 4);
  REQUIRE(engine.submit(requests));
  engine.step();
  engine.step();
  REQUIRE(engine.cancel(1));  // computes the prompt for 2 and 3
  REQUIRE(engine.cancel(5));  // still waits for a slot
  auto results = by_id(engine.run());
  REQUIRE(results.size() == 5);
  CHECK(results[1].reason == finish_reason::cancelled);
  CHECK(results[5].reason == finish_reason::cancelled);
  CHECK(results[5].tokens.empty());
  for (std::size_t i : {1U, 2U, 3U})
    CHECK(results[requests[i].id].tokens == alone(arena, requests[i]).tokens);
  CHECK(engine.idle());
  CHECK_FALSE(engine.cancel(1));
  REQUIRE(engine.submit({&requests[0], 1}));  // slots and ids are free again
  CHECK(engine.run()[0].tokens == alone(arena, requests[0]).tokens);
}

TEST_CASE("a cancelled leader that waits for a slot hands the prompt to the next member") {
  const parameter_arena arena = small_policy();
  const std::vector<generation_request> requests{
      ask(1, some_tokens(12, 1), 30), ask(2, some_tokens(30, 2)), ask(3, some_tokens(30, 2))};
  generator engine = make_engine(arena, 4, 2);
  REQUIRE(engine.submit(requests));
  engine.step();
  REQUIRE(engine.cancel(2));
  auto results = by_id(engine.run());
  CHECK(results[2].reason == finish_reason::cancelled);
  CHECK(results[3].tokens == alone(arena, requests[2]).tokens);
}

TEST_CASE(
    "weights change between two steps, after their hash was checked, and tokens say which version "
    "made them") {
  const parameter_arena old_weights = small_policy(architecture::qwen3, 3),
                        new_weights = small_policy(architecture::qwen3, 4);
  generator engine = make_engine(old_weights);
  CHECK(engine.weights_hash() == old_weights.hash());
  const generation_request r = ask(1, some_tokens(3, 1), 12);
  REQUIRE(engine.submit({&r, 1}));
  CHECK_FALSE(engine.staging());
  CHECK_FALSE(engine.commit());
  for (int i = 0; i < 5; ++i)
    engine.step();
  CHECK_FALSE(engine.announce(0, new_weights.hash()));
  REQUIRE(engine.announce(7, new_weights.hash()));
  engine.staging()->flat.copy_(old_weights.flat);  // not what was announced
  const auto wrong = engine.commit();
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().code == base::errc::corrupt);
  CHECK(engine.version() == 0);
  REQUIRE(engine.announce(7, new_weights.hash()));
  engine.staging()->flat.copy_(new_weights.flat);
  CHECK(engine.version() == 0);
  REQUIRE(engine.commit());
  CHECK(engine.version() == 7);
  const auto results = engine.run();
  REQUIRE(results.size() == 1);
  REQUIRE(results[0].segments.size() == 2);
  CHECK(results[0].segments[0] == version_segment{0, 0, old_weights.hash()});
  CHECK(results[0].segments[1] == version_segment{5, 7, new_weights.hash()});
  const generation_result before = alone(old_weights, r);
  CHECK(std::equal(before.tokens.begin(), before.tokens.begin() + 5, results[0].tokens.begin()));
  const generation_request fresh = ask(2, some_tokens(3, 1), 12);
  REQUIRE(engine.submit({&fresh, 1}));
  CHECK(engine.run()[0].log_probs == alone(new_weights, fresh).log_probs);
  CHECK_FALSE(engine.announce(3, old_weights.hash()));
  REQUIRE(engine.announce(3, old_weights.hash(), true));
  engine.abort();
  CHECK_FALSE(engine.commit());
}

TEST_CASE("a prompt's slot stays as long as somebody reads it, and every slot comes back") {
  const parameter_arena arena = small_policy();
  generator engine = make_engine(arena, 4, 3);
  for (std::uint64_t round = 0; round < 3; ++round) {
    std::vector<generation_request> requests;
    for (std::uint64_t i = 0; i < 9;
         ++i)  // three groups of three; the member that computes the prompt ends first
      requests.push_back(ask(round * 10 + i, some_tokens(35, static_cast<std::uint32_t>(i / 3)),
                             i % 3 == 0 ? 1 : 25));
    REQUIRE(engine.submit(requests));
    auto results = by_id(engine.run());
    REQUIRE(results.size() == 9);
    for (const generation_request& r : requests)
      CHECK(results[r.id].log_probs == alone(arena, r).log_probs);
  }
  CHECK(engine.counters().prompt_rows == 3 * 3 * 35);
}

TEST_CASE("padded vocabulary is never drawn") {
  const parameter_arena arena = small_policy();
  generator_options options;
  options.rows = 4;
  options.slots = 4;
  options.valid_tokens = 5;
  generator engine = std::move(generator::make(arena, 0, options)).value();
  const generation_request r = ask(1, {1, 2, 3}, 80);
  REQUIRE(engine.submit({&r, 1}));
  const auto result = engine.run();
  CHECK(std::all_of(result[0].tokens.begin(), result[0].tokens.end(),
                    [](std::int32_t t) { return t < 5; }));
  const generation_request outside = ask(2, {6}, 8);
  CHECK_FALSE(engine.submit({&outside, 1}));
}

TEST_CASE("bad requests are refused with the value") {
  const parameter_arena arena = small_policy();
  generator engine = make_engine(arena);
  const auto refused = [&](const generation_request& r, std::string_view part) {
    const auto result = engine.submit({&r, 1});
    REQUIRE_FALSE(result);
    CHECK(result.error().message.find(part) != std::string::npos);
  };
  refused(ask(1, {}), "empty");
  refused(ask(1, {61}), "61");
  refused(ask(1, some_tokens(96, 1)), "96");
  refused(ask(1, {1}, 0), "max_tokens");
  generation_request r = ask(1, {1});
  r.temperature = 0;
  refused(r, "temperature");
  r.temperature = 1;
  REQUIRE(engine.submit({&r, 1}));
  refused(r, "in flight");
  const std::vector<generation_request> twins{ask(2, {1}), ask(2, {3})};
  CHECK_FALSE(engine.submit(twins));
  CHECK(engine.in_flight() == 1);
  parallel_context two;
  two.tp = 2;
  const auto parallel = generator::make(arena, 0, {}, two);
  REQUIRE_FALSE(parallel);
  CHECK(parallel.error().message.find("tp is 2") != std::string::npos);
}

TEST_CASE("sampling follows the probabilities") {
  const std::vector<float> logits{0.0F, 1.0F, -std::numeric_limits<float>::infinity(), 2.0F};
  for (double temperature : {0.5, 1.0, 3.0}) {
    double sum = 0;
    std::vector<double> p, seen(4, 0);
    for (float z : logits)
      sum += p.emplace_back(std::exp(z / temperature));
    constexpr int draws = 20000;
    for (int i = 0; i < draws; ++i) {
      const sampled_token t =
          sample_token(logits, temperature, sampling_uniform(5, 6, static_cast<std::uint64_t>(i)));
      seen[static_cast<std::size_t>(t.token)] += 1.0 / draws;
      CHECK(std::abs(t.log_prob - std::log(p[static_cast<std::size_t>(t.token)] / sum)) < 1e-6);
    }
    for (std::size_t i = 0; i < 4; ++i)
      CHECK(std::abs(seen[i] - p[i] / sum) < 0.015);  // four deviations of 20,000 draws
    CHECK(seen[2] == 0);
  }
  CHECK(greedy_token(std::vector<float>{1, 3, 3, 2}).token == 1);
  CHECK(sample_token(logits, 1, 1 - 1e-16).token == 3);
  CHECK(sample_token(logits, 1, 1e-16).token == 0);
  CHECK(sampling_uniform(1, 2, 3) != sampling_uniform(1, 2, 4));
  CHECK(sampling_uniform(1, 2, 3) != sampling_uniform(1, 3, 3));
}
