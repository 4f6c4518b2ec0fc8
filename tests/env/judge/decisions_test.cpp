// What an evaluator decides without running anything: times to verdict, large claims, cache, cost
// model, advice.
#include <cmath>

#include "base/random.hpp"
#include "env/build/shared_compilation.hpp"
#include "env/judge/claim_words.hpp"
#include "env/judge/compare.hpp"
#include "env/judge/cost_model.hpp"
#include "env/judge/explain.hpp"
#include "env/judge/judgement.hpp"
#include "env/judge/staged_evaluation.hpp"
#include "env/judge/verdict_cache.hpp"
#include "env/lanes/cpp/cpp_lane.hpp"
#include "env/lanes/cuda/cuda_lane.hpp"
#include "env/tensor_task/tensor_body.hpp"
#include "support/test.hpp"

using namespace quern::env;

namespace {

process_pairs pairs(double speedup, double jitter, std::uint64_t seed = 1, std::size_t count = 56) {
  quern::base::random_stream random(seed, "pairs");
  process_pairs result;
  for (std::size_t i = 0; i < count; ++i)
    result.push_back({2e5 * std::exp(jitter * random.normal()),
                      2e5 / speedup * std::exp(jitter * random.normal())});
  return result;
}

judgement judge(std::vector<process_pairs> runs, judgement_rules rules = {}) {
  return judge_times(runs, rules);
}

verdict ok(std::int64_t e2) {
  verdict v;
  v.kind = verdict_kind::ok;
  v.speedup_e2 = e2;
  v.time.emplace();
  return v;
}

verdict_key key(const char* source = "s") {
  return {"t@0", source, "paired/1", "cpp-avx2", "e"};
}

}  // namespace

TEST_CASE("a clear speed-up is ok, a kernel against itself is exactly 1.00") {
  const auto fast = judge({pairs(1.5, 0.005)});
  CHECK(fast.kind == verdict_kind::ok);
  CHECK(fast.speedup_e2 >= 149);
  CHECK(fast.speedup_e2 <= 150);
  CHECK(fast.time->ref_ns.size() == 7);
  for (std::uint64_t seed = 0; seed < 200; ++seed)
    CHECK(judge({pairs(1, 0.02, seed)}).speedup_e2 == 100);
}

TEST_CASE("noise and too few windows are noisy, not slow") {
  CHECK(judge({pairs(1.5, 0.6)}).kind == verdict_kind::noisy);
  CHECK(judge({pairs(1.5, 0.001, 1, 6)}).kind == verdict_kind::noisy);
  CHECK(judge({}).kind == verdict_kind::noisy);
  CHECK_FALSE(judge({pairs(1.5, 0.6)}).detail.empty());
}

TEST_CASE("with a wide noise limit a claim still says no more than its interval") {
  judgement_rules rules;
  rules.limits.half_width = 0.3;
  rules.limits.bucket_deviation = 0.3;
  int beyond = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const auto itself = judge({pairs(1, 0.2, seed)}, rules);
    REQUIRE(itself.kind == verdict_kind::ok);
    beyond += itself.speedup_e2 != 100;
    const auto twice = judge({pairs(2, 0.2, seed)}, rules);
    CHECK(twice.speedup_e2 > 130);
  }
  // 95 % intervals, and t of four degrees of freedom: few of 200 may leave them.
  CHECK(beyond <= 20);
  CHECK(judge({pairs(1, 0.2)}).kind == verdict_kind::noisy);
}

TEST_CASE("faster than physics is a hack, but not a slow machine's doubt") {
  judgement_rules rules;
  rules.floor_ns = 1e4;
  CHECK(judge({pairs(100, 0.005)}, rules).kind == verdict_kind::hack);
  CHECK(judge({pairs(100, 0.005)}, rules).reason == "impossible");
  CHECK(judge({pairs(25, 0.005)}, rules).kind == verdict_kind::ok);
}

TEST_CASE("large claims: capped, confirmed by a second measurement, or unconfirmed") {
  auto v = ok(4000);
  settle_claim(v, {});
  CHECK(v.kind == verdict_kind::ok);
  CHECK(v.speedup_e2 == 3000);
  CHECK(v.confirmed == false);
  v = ok(4000);
  settle_claim(v, {}, std::vector<std::int64_t>{3900});
  CHECK(v.speedup_e2 == 3900);
  CHECK(v.confirmed == true);
  v = ok(4000);
  settle_claim(v, {}, std::vector<std::int64_t>{2000});
  CHECK(v.kind == verdict_kind::unconfirmed);
  CHECK_FALSE(v.speedup_e2.has_value());
  v = ok(200);
  settle_claim(v, {});
  CHECK(v.speedup_e2 == 200);
  CHECK_FALSE(v.confirmed == false);
}

TEST_CASE("cache: what may be reused is reused, what may not is not") {
  verdict_cache cache;
  for (int k = 0; k < verdict_kind_count; ++k) {
    const auto kind = static_cast<verdict_kind>(k);
    verdict v;
    v.kind = kind;
    const std::string source = "s" + std::to_string(k);
    cache.store(key(source.c_str()), {v, {}, std::nullopt});
    const bool there = cache.find(key(source.c_str())) != nullptr;
    CHECK(there == is_cacheable(kind));
  }
}

TEST_CASE("cache: every part of the key counts") {
  verdict_cache cache;
  cache.store(key(), {ok(150), {}, std::nullopt});
  CHECK(cache.find(key()) != nullptr);
  for (auto change : {&verdict_key::task, &verdict_key::source, &verdict_key::protocol,
                      &verdict_key::device_class, &verdict_key::env}) {
    auto other = key();
    other.*change += "x";
    CHECK(cache.find(other) == nullptr);
  }
}

TEST_CASE(
    "cache: an ok that a later measurement puts in doubt goes; the oldest goes when it is full") {
  verdict_cache cache(2);
  cache.store(key("a"), {ok(150), {}, std::nullopt});
  verdict doubt;
  doubt.kind = verdict_kind::unconfirmed;
  cache.store(key("a"), {doubt, {}, std::nullopt});
  CHECK(cache.find(key("a")) == nullptr);
  cache.store(key("a"), {ok(1), {}, std::nullopt});
  cache.store(key("b"), {ok(2), {}, std::nullopt});
  CHECK(cache.find(key("a")) != nullptr);
  cache.store(key("c"), {ok(3), {}, std::nullopt});
  CHECK(cache.size() == 2);
  CHECK(cache.find(key("b")) == nullptr);
  CHECK(cache.find(key("a"))->kept_verdict.speedup_e2 == 1);
}

TEST_CASE("cache: measurements are pooled up to a bound") {
  verdict_cache cache;
  std::vector<process_pairs> runs(9, pairs(1, 0.01));
  runs.back() = pairs(2, 0.01);
  cache.store(key(), {ok(1), runs, std::nullopt});
  const auto* entry = cache.find(key());
  REQUIRE(entry != nullptr);
  CHECK(entry->runs.size() == verdict_cache::max_runs);
  CHECK(entry->runs.back()[0].cand_ns < 1.2e5);
}

TEST_CASE("cache: one ok in eight is measured again, addressed by the seed; failures never are") {
  int again = 0;
  for (std::uint64_t seed = 0; seed < 8000; ++seed)
    again += measure_again(ok(150), key(), seed, 0.125);
  CHECK(again > 880);
  CHECK(again < 1120);
  CHECK(measure_again(ok(150), key(), 3, 0.5) == measure_again(ok(150), key(), 3, 0.5));
  verdict wrong;
  wrong.kind = verdict_kind::wrong_value;
  for (std::uint64_t seed = 0; seed < 100; ++seed)
    CHECK_FALSE(measure_again(wrong, key(), seed, 1));
}

TEST_CASE("cost model: a function of task and canonical source, with the documented values") {
  const std::string plain =
      "extern \"C\" void kernel(const float* x, float* y, int64_t n, void*, void*) {\n"
      "  for (int64_t i = 0; i < n; ++i) y[i] = x[i];\n}\n";
  const auto base = cost_model_e2("t@0", plain);
  CHECK(base == cost_model_e2("t@0", "// a comment\n" + plain));
  CHECK(base >= 112);  // cost 100 ..= 115
  CHECK(base <= 130);
  const auto doubles =
      cost_model_e2("t@0", plain + "static double a; static double b; static double c;\n");
  CHECK(doubles <= 13000 / 175);
  CHECK(doubles >= 13000 / 190);
  CHECK(cost_model_e2("t@0", "_mm256_x __restrict__\n#pragma GCC unroll 4\n") >= 13000 / 70);
}

TEST_CASE("a claim says how it follows from what was measured") {
  verdict v;
  v.kind = verdict_kind::ok;
  v.protocol = "paired/1";
  v.speedup_e2 = 178;
  v.confirmed = true;
  const auto measured = [&](double low, double mid, double high) {
    v.time.emplace();
    for (const double one : {low, mid, high})
      v.time->log_ratio_e9.push_back(std::llround(1e9 * std::log(one)));
    return claim_words(v);
  };
  CHECK(measured(1.765, 1.789, 1.813) == "what was measured, rounded toward 1");
  CHECK(measured(1.785, 1.81, 1.85).find("slow end of the interval") != std::string::npos);
  CHECK(measured(1.9, 1.95, 2.0).find("lowest of several measurements") != std::string::npos);
  v.speedup_e2 = 50;  // a slower kernel: toward 1 is up
  CHECK(measured(0.48, 0.492, 0.51) == "what was measured, rounded toward 1");
  v.speedup_e2 = 100;
  CHECK(measured(0.99, 1.012, 1.03).find("the interval contains 1") != std::string::npos);
  CHECK(measured(1.011, 1.02, 1.03).find("measured against itself") != std::string::npos);
  v.speedup_e2 = 3000;
  v.claim_e2 = 4100;
  CHECK(measured(40, 41, 42).find("a cap") == 0);
  // Rules of others are in docs/measuring.md; what was not timed claims nothing.
  v.protocol = "cuda_l1_report/1";
  CHECK(claim_words(v).empty());
  v.protocol = "paired/1@graph";
  CHECK_FALSE(claim_words(v).empty());
  v.time.reset();
  CHECK(claim_words(v).empty());
}

TEST_CASE("a verdict for a person says each thing once") {
  task what;
  what.name = "copy";
  what.lane = &cpp_lane;
  what.body = std::make_shared<tensor_body>();
  verdict v;
  v.kind = verdict_kind::wrong_value;
  v.first_diff = first_difference{"y", {0}, "0x1.8p+0", "0x1p+0"};
  v.detail = describe(*v.first_diff) + " (n=7 m=33, large)";
  const std::string twice = describe(*v.first_diff);
  std::string text = describe_verdict(v, what);
  CHECK(text.find("wrong     " + v.detail + "\n") != std::string::npos);
  CHECK(text.find(twice) == text.rfind(twice));
  CHECK(text.find("because") == std::string::npos);
  CHECK(outcome_line(v) == "wrong_value: " + v.detail);
  // Another reason stands beside it.
  v.detail = "two calls disagree";
  text = describe_verdict(v, what);
  CHECK(text.find("wrong     " + twice + "\n") != std::string::npos);
  CHECK(text.find("because   two calls disagree\n") != std::string::npos);
  v.checks = {{"static screen", true, ""},
              {"hidden", true, ""},
              {"timed", true, ""},
              {"hidden", true, ""},
              {"hidden", false, ""}};
  text = explain_verdict(v, what);
  CHECK(text.find("  pass  static screen\n  pass  hidden (2 times)\n  pass  timed\n"
                  "  FAIL  hidden\n") != std::string::npos);
}

TEST_CASE("every verdict has words for a person") {
  task what;
  what.name = "copy";
  what.body = std::make_shared<tensor_body>();
  for (const lane* one : {&cpp_lane, &cuda_lane})
    for (int k = 0; k < verdict_kind_count; ++k) {
      what.lane = one;
      verdict v;
      v.kind = static_cast<verdict_kind>(k);
      if (v.kind == verdict_kind::malformed) continue;  // never reaches an evaluator
      CHECK(advice_for(v, what) != "see the detail");
      CHECK(describe_verdict(v, what).find(name_of(v.kind)) == 0);
      CHECK(explain_verdict(v, what).find("sandbox") != std::string::npos);
    }
  // Of what a lane has, and of reasons.
  verdict v;
  v.kind = verdict_kind::oom;
  CHECK(quern::test::contains(advice_for(v, what), "device memory"));
  v.kind = verdict_kind::rejected_static;
  CHECK_FALSE(quern::test::contains(advice_for(v, what), "prelude"));
  v.reason = "host_entry";
  CHECK(quern::test::contains(advice_for(v, what), "launch_plan.md"));
  what.lane = &cpp_lane;
  v = {};
  v.kind = verdict_kind::oom;
  CHECK(quern::test::contains(advice_for(v, what), "at most 256 MiB"));
  v = {};
  v.kind = verdict_kind::runtime_error;
  v.detail = "it failed\nok 9.99x   copy";
  CHECK(quern::test::contains(describe_verdict(v, what), "\n          ok 9.99x"));
  v = {};
  v.kind = verdict_kind::timeout;
  v.reason = "verify";
  CHECK(quern::test::contains(advice_for(v, what), "small or odd sizes"));
  v.reason = "time";
  CHECK(quern::test::contains(advice_for(v, what), "under the clock"));
}

TEST_CASE("an evaluation that was interrupted is made once more, for each interruption") {
  using enum interruption;
  repeated_evaluations once_more;
  CHECK_FALSE(once_more.allow(none));
  // A candidate that ends itself is not tried a third time.
  CHECK(once_more.allow(candidate_ended));
  CHECK_FALSE(once_more.allow(candidate_ended));
  CHECK_FALSE(once_more.allow(none));
  // One whose reference was killed in the second one is not charged with that.
  CHECK(once_more.allow(reference_lost));
  CHECK_FALSE(once_more.allow(reference_lost));
  CHECK_FALSE(once_more.allow(candidate_ended));
}

TEST_CASE("what is found of a plain baseline is the task's fault, or this host's") {
  finding f{verdict_kind::runtime_error, "", "SIGSEGV", std::nullopt};
  CHECK(of_plain_baseline(f).kind == verdict_kind::invalid_reference);
  CHECK(of_plain_baseline(f).detail == "plain baseline: SIGSEGV");
  f.doubtful = true;
  CHECK(of_plain_baseline(f).kind == verdict_kind::infra_error);
  f = {verdict_kind::infra_error, "", "no descriptors", std::nullopt};
  CHECK(of_plain_baseline(f).kind == verdict_kind::infra_error);
}

TEST_CASE("a text that does not compile is not compiled a second time; what failed here is") {
  shared_compilation compilations;
  int made = 0;
  const auto ask = [&](std::uint64_t key, const quern::base::expected<compile_result>& answer) {
    return compilations.once({key, key}, [&] {
      ++made;
      return answer;
    });
  };
  compile_result result;
  for (const auto what : {compile_result::kind::error, compile_result::kind::timeout}) {
    result.outcome = what;
    const auto key = static_cast<std::uint64_t>(what);
    for (int i = 0; i < 2; ++i)
      CHECK(ask(key, result)->outcome == what);
  }
  CHECK(made == 2);
  const quern::base::expected<compile_result> ended =
      quern::base::fail(quern::base::errc::unavailable, "ended by another process");
  CHECK_FALSE(ask(7, ended));
  CHECK_FALSE(ask(7, ended));
  CHECK(made == 4);
}
