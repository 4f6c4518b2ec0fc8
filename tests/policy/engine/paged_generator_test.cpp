// The paged method with scalar kernels against the slot method, token by token: pages, chunks of
// prompts, fan-out, preemption, late reading, stops, versions. What a GPU adds is the kernels,
// which have tests of their own (tests/policy/device), and gpu_generator_test.cpp.
#include <algorithm>
#include <cmath>
#include <map>

#include "policy/engine/generation_requests.hpp"
#include "policy/engine/generator.hpp"
#include "policy/engine/goldens.hpp"
#include "policy/engine/small_models.hpp"
#include "policy/engine/threads.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::policy;
using quern::test::ask;
using quern::test::by_id;
using quern::test::results_by_id;
using quern::test::small_config;
using quern::test::some_tokens;

namespace {

generator make_paged(const parameter_arena& arena, const generator_options& settings) {
  generator_options options = settings;
  options.method = generation_method::paged;
  options.page = 32;
  return std::move(generator::make(arena, 0, options)).value();
}

/// Groups of three with prompts of different lengths, temperatures and lengths of completions.
std::vector<generation_request> mixed_requests() {
  std::vector<generation_request> requests;
  for (std::uint64_t i = 0; i < 15; ++i) {
    requests.push_back(ask(100 + i,
                           some_tokens(3 + 14 * (i / 3), static_cast<std::uint32_t>(1 + i / 3)),
                           static_cast<std::int32_t>(4 + 2 * i)));
    requests.back().temperature = i % 2 == 0 ? 1.0 : 0.7;
    requests.back().greedy = i % 5 == 4;
  }
  return requests;
}

/// Equal tokens, log-probs up to rounding.
void check_equal(results_by_id expected, results_by_id found) {
  REQUIRE(found.size() == expected.size());
  for (const auto& [id, a] : expected) {
    const generation_result& b = found[id];
    CAPTURE(id);
    CHECK(a.tokens == b.tokens);
    CHECK(a.reason == b.reason);
    REQUIRE(a.log_probs.size() == b.log_probs.size());
    for (std::size_t i = 0; i < std::min(a.log_probs.size(), b.log_probs.size()); ++i) {
      CHECK(std::abs(a.log_probs[i] - b.log_probs[i]) < 2e-5);
      CHECK(std::abs(a.raw_log_probs[i] - b.raw_log_probs[i]) < 2e-5);
    }
  }
}

results_by_id run_all(generator engine, const std::vector<generation_request>& requests) {
  REQUIRE(engine.submit(requests));
  return by_id(engine.run());
}

}  // namespace

TEST_CASE("the paged method samples what the slot method samples") {
  for (architecture arch : {architecture::qwen2, architecture::qwen3, architecture::llama}) {
    CAPTURE(model_type(arch));
    const parameter_arena arena = parameter_arena::random(small_config(arch), 3).value();
    const auto requests = mixed_requests();
    generator_options slots;
    slots.slots = 6;
    const auto expected = run_all(std::move(generator::make(arena, 0, slots)).value(), requests);
    for (std::int32_t prompt_rows : {7, 64}) {
      generator_options o;
      o.slots = 6;
      o.prompt_rows = prompt_rows;
      check_equal(expected, run_all(make_paged(arena, o), requests));
    }
  }
}

TEST_CASE("a group's prompt is computed once, and nobody is pushed out where pages suffice") {
  const parameter_arena arena =
      parameter_arena::random(small_config(architecture::qwen3), 3).value();
  generator_options o;
  o.slots = 6;
  generator engine = make_paged(arena, o);
  const auto requests = mixed_requests();
  REQUIRE(engine.submit(requests));
  engine.run();
  std::int64_t prompts = 0, sampled = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    prompts += i % 3 == 0 ? static_cast<std::int64_t>(requests[i].prompt.size()) : 0;
    sampled += requests[i].max_tokens;
  }
  CHECK(engine.counters().prompt_rows == prompts);
  CHECK(engine.counters().sampled_tokens == sampled);
  CHECK(engine.counters().preemptions == 0);
  CHECK(engine.counters().graphs == 0);  // there are none on the host
  CHECK(engine.counters().cache_held > 0);
  CHECK(engine.counters().cache_held < engine.counters().cache_room);
}

TEST_CASE("sequences that lose their pages are computed again from their tokens") {
  const parameter_arena arena =
      parameter_arena::random(small_config(architecture::qwen3), 3).value();
  const auto requests = mixed_requests();
  generator_options o;
  o.slots = 8;
  const auto expected = run_all(make_paged(arena, o), requests);
  // Pages for little more than one sequence of 96 positions.
  const model_config& c = arena.config;
  o.cache_bytes = 5 * c.layers * 2 * c.kv_size() * 32 * 4;
  generator engine = make_paged(arena, o);
  REQUIRE(engine.submit(requests));
  check_equal(expected, by_id(engine.run()));
  CHECK(engine.counters().preemptions > 0);
  // Where pages are few, most are held.
  CHECK(2 * engine.counters().cache_held > engine.counters().cache_room);
  CHECK(engine.counters().cache_held <= engine.counters().cache_room);
  o.cache_bytes = 2 * c.layers * 2 * c.kv_size() * 32 * 4;
  o.method = generation_method::paged;
  o.page = 32;
  const auto small = generator::make(arena, 0, o);
  REQUIRE_FALSE(small);
  CHECK(small.error().message.find("raise cache_bytes") != std::string::npos);
  // All of the memory is somebody else's.
  o.cache_bytes = 0;
  REQUIRE(generator::make(arena, 0, o));
  o.leave_bytes = std::int64_t{1} << 60;
  const auto none = generator::make(arena, 0, o);
  REQUIRE_FALSE(none);
  CHECK(none.error().message.find("are left to others") != std::string::npos);
}

TEST_CASE("exact: a sample is the same bits alone, in company and after preemption") {
  set_threads(1);  // with two, MKL on an AMD CPU gives the third of five rows other bits
  const parameter_arena arena =
      parameter_arena::random(small_config(architecture::qwen3), 3).value();
  const auto requests = mixed_requests();
  generator_options o;
  o.exact = true;
  o.rows = 5;
  o.slots = 6;
  const auto together = run_all(make_paged(arena, o), requests);
  const model_config& c = arena.config;
  o.cache_bytes = 5 * c.layers * 2 * c.kv_size() * 32 * 4;
  generator tight = make_paged(arena, o);
  REQUIRE(tight.submit(requests));
  const auto pressed = by_id(tight.run());
  CHECK(tight.counters().preemptions > 0);
  for (const generation_request& r : requests) {
    const auto alone = run_all(make_paged(arena, o), {r});
    CAPTURE(r.id);
    CHECK(alone.at(r.id).tokens == together.at(r.id).tokens);
    CHECK(alone.at(r.id).log_probs == together.at(r.id).log_probs);
    CHECK(pressed.at(r.id).log_probs == together.at(r.id).log_probs);
  }
  CHECK(together.at(100).log_probs != together.at(101).log_probs);
}

TEST_CASE("paged: stop ids beyond what the device keeps, lengths, the end of the cache") {
  const parameter_arena arena =
      parameter_arena::random(small_config(architecture::qwen3), 3).value();
  const auto free_run = run_all(make_paged(arena, {}), {ask(1, some_tokens(6, 2), 40)}).at(1);
  REQUIRE(free_run.tokens.size() == 40);
  CHECK(free_run.reason == finish_reason::length);
  generation_request r = ask(1, some_tokens(6, 2), 40);
  for (std::int32_t i = 0; i < 20; ++i)
    r.stop_ids.push_back(1000 + i);  // never sampled
  r.stop_ids.push_back(free_run.tokens[17]);
  const auto stopped = run_all(make_paged(arena, {}), {r}).at(1);
  CHECK(stopped.reason == finish_reason::stop);
  const auto first = std::find(free_run.tokens.begin(), free_run.tokens.end(), free_run.tokens[17]);
  CHECK(stopped.tokens == std::vector<std::int32_t>(free_run.tokens.begin(), first + 1));
  std::reverse(r.stop_ids.begin(), r.stop_ids.end());  // now the device knows it
  CHECK(run_all(make_paged(arena, {}), {r}).at(1).tokens == stopped.tokens);
  const auto full = run_all(make_paged(arena, {}), {ask(2, some_tokens(90, 4), 1000)}).at(2);
  CHECK(full.tokens.size() == 6);
  CHECK(full.reason == finish_reason::length);
}

TEST_CASE("paged: cancels leave the others alone") {
  const parameter_arena arena =
      parameter_arena::random(small_config(architecture::qwen3), 3).value();
  const std::vector<generation_request> requests{
      ask(1, some_tokens(30, 2), 20), ask(2, some_tokens(30, 2), 20),
      ask(3, some_tokens(30, 2), 20), ask(4, some_tokens(8, 9), 20),
      ask(5, some_tokens(8, 10), 20)};
  generator_options o;
  o.slots = 4;
  o.prompt_rows = 8;
  const auto expected = run_all(make_paged(arena, o), requests);
  generator engine = make_paged(arena, o);
  REQUIRE(engine.submit(requests));
  engine.step();
  engine.step();
  REQUIRE(engine.cancel(1));  // computes the prompt for 2 and 3
  REQUIRE(engine.cancel(5));  // still waits for a slot
  auto results = by_id(engine.run());
  REQUIRE(results.size() == 5);
  CHECK(results[1].reason == finish_reason::cancelled);
  CHECK(results[5].reason == finish_reason::cancelled);
  for (std::uint64_t id : {2U, 3U, 4U})
    CHECK(results[id].tokens == expected.at(id).tokens);
  CHECK(engine.idle());
  CHECK_FALSE(engine.cancel(1));
  REQUIRE(engine.submit({&requests[0], 1}));
  CHECK(engine.run()[0].tokens == expected.at(1).tokens);
}

TEST_CASE(
    "paged: who takes up a cancelled leader's prompt in a slot that was used has its own pages") {
  const parameter_arena arena =
      parameter_arena::random(small_config(architecture::qwen3), 3).value();
  const std::vector<generation_request> before{
      ask(1, some_tokens(80, 5), 4), ask(2, some_tokens(80, 6), 4), ask(3, some_tokens(80, 7), 4)};
  const std::vector<generation_request> group{ask(11, some_tokens(70, 2), 20),
                                              ask(12, some_tokens(70, 2), 20),
                                              ask(13, some_tokens(70, 2), 20)};
  generator_options o;
  o.slots = 3;
  o.prompt_rows = 40;
  const auto expected = run_all(make_paged(arena, o), group);
  generator engine = make_paged(arena, o);
  REQUIRE(engine.submit(before));
  (void)engine.run();
  REQUIRE(engine.submit(group));
  engine.step();
  REQUIRE(engine.cancel(11));
  // Whose pages the slots of before had.
  const generation_request other = ask(20, some_tokens(70, 8), 20);
  REQUIRE(engine.submit({&other, 1}));
  auto results = by_id(engine.run());
  for (std::uint64_t id : {12U, 13U})
    CHECK(results[id].tokens == expected.at(id).tokens);
  CHECK(results[20].tokens == run_all(make_paged(arena, o), {other}).at(20).tokens);
}

TEST_CASE("paged: tokens say which version made them, though they are read a step late") {
  const parameter_arena old_weights =
                            parameter_arena::random(small_config(architecture::qwen3), 3).value(),
                        new_weights =
                            parameter_arena::random(small_config(architecture::qwen3), 4).value();
  generator engine = make_paged(old_weights, {});
  CHECK(engine.weights_hash() == old_weights.hash());
  const generation_request r = ask(1, some_tokens(3, 1), 12);
  REQUIRE(engine.submit({&r, 1}));
  for (int i = 0; i < 5; ++i)
    engine.step();
  REQUIRE(engine.announce(7, new_weights.hash()));
  engine.staging()->flat.copy_(old_weights.flat);
  CHECK_FALSE(engine.commit());
  REQUIRE(engine.announce(7, new_weights.hash()));
  engine.staging()->flat.copy_(new_weights.flat);
  REQUIRE(engine.commit());
  const auto results = engine.run();
  REQUIRE(results.size() == 1);
  REQUIRE(results[0].segments.size() == 2);
  CHECK(results[0].segments[0] == version_segment{0, 0, old_weights.hash()});
  CHECK(results[0].segments[1] == version_segment{5, 7, new_weights.hash()});
  const auto before = run_all(make_paged(old_weights, {}), {r}).at(1);
  CHECK(std::equal(before.tokens.begin(), before.tokens.begin() + 5, results[0].tokens.begin()));
  const generation_request fresh = ask(2, some_tokens(3, 1), 12);
  REQUIRE(engine.submit({&fresh, 1}));
  CHECK(engine.run()[0].tokens == run_all(make_paged(new_weights, {}), {fresh}).at(2).tokens);
}

TEST_CASE("paged: 64 greedy tokens are those of transformers") {
  for (const test::golden& g : test::load_goldens()) {
    CAPTURE(g.dir.filename().string());
    generator_options o;
    o.slots = 3;
    o.prompt_rows = 5;
    const auto requests = test::greedy_requests(g);
    for (const auto& [id, r] : run_all(make_paged(g.arena, o), requests))
      CHECK(r.tokens == test::greedy_tokens(g, id));
  }
}
