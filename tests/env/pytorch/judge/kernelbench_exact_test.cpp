// kernelbench_exact/1: what is made of its terms, and of what a child says, which the candidate may
// have written. No process is started.
#include "env/lanes/pytorch/kernelbench_exact.hpp"

#include "support/test.hpp"

using namespace quern;
using namespace quern::env;
using test::contains;

namespace {

base::json exact_terms_with(const char* key = nullptr, const base::json& value = {}) {
  base::json terms{{"protocol", protocol_kernelbench_exact}};
  if (key != nullptr) terms[key] = value;
  return terms;
}

/// Why terms are refused; empty: they are not.
std::string refusal(const base::json& terms) {
  const auto read = parse_exact_terms(terms);
  return read ? std::string() : read.error().message;
}

base::json said_with(const char* key = nullptr, const base::json& value = {}) {
  base::json answer{{"end", "result"},
                    {"compiled", true},
                    {"correctness", true},
                    {"metadata", {{"correctness_trials", "(5 / 5)"}}},
                    {"candidate_ms", base::json::array()},
                    {"reference_ms", base::json::array()}};
  if (key != nullptr) answer[key] = value;
  return answer;
}

exact_answer timed(std::vector<double> candidate_ms, std::vector<double> reference_ms) {
  exact_answer answer;
  answer.compiled = answer.correctness = true;
  answer.candidate_ms = std::move(candidate_ms);
  answer.reference_ms = std::move(reference_ms);
  return answer;
}

bool is_flagged(const base::json& result) {
  return result["metadata"].contains("excessive_speedup");
}

}  // namespace

TEST_CASE("terms have KernelBench's defaults, and each wrong one is named with what is allowed") {
  const auto usual = parse_exact_terms(exact_terms_with());
  REQUIRE(usual);
  CHECK(usual->seed == 42);
  CHECK(usual->correct_trials == 1);
  CHECK(usual->warm_ups == 3);
  CHECK(usual->discarded == 1);
  CHECK(usual->perf_trials == 10);
  CHECK_FALSE(usual->measure);
  CHECK(usual->check_speedup);
  CHECK(usual->excessive_above == 10);
  CHECK(parse_exact_terms(exact_terms_with("backend", "Triton"))->backend == "triton");

  CHECK(contains(refusal(base::json::array()), "is no object"));
  CHECK(contains(refusal({{"seed", 1}}), "'protocol' is missing"));
  CHECK(contains(refusal({{"protocol", "kernelbench_exact/2"}}), "kernelbench_exact/1"));
  CHECK(contains(refusal(exact_terms_with("perf_trails", 1)), "did you mean 'perf_trials'"));
  CHECK(contains(refusal(exact_terms_with("perf_trials", 0)),
                 "exact.perf_trials: 0 is not a whole "
                 "number in 1 .. 10000"));
  CHECK(contains(refusal(exact_terms_with("seed", -1)), "exact.seed: -1"));
  CHECK(contains(refusal(exact_terms_with("correct_trials", 2.5)), "exact.correct_trials: 2.5"));
  CHECK(contains(refusal(exact_terms_with("measure", "yes")), "true or false"));
  CHECK(contains(refusal(exact_terms_with("limit_s", 1e9)), "a number in 1 .. 3600"));
  CHECK(contains(refusal(exact_terms_with("backend", "metal")), "cuda, triton"));
  CHECK(contains(refusal(exact_terms_with("build_dir", 3)), "exact.build_dir: 3 is not a text"));
}

TEST_CASE("what KernelBench refuses by its arguments leaves it as an exception") {
  exact_terms terms;
  CHECK_FALSE(refused_by_kernelbench(terms, "fp32"));
  terms.backend = "tilelang";
  CHECK(refused_by_kernelbench(terms, "fp32")->name == "builtins.AssertionError");
  CHECK_FALSE(refused_by_kernelbench(terms, "bf16"));
  terms.backend = "hip";
  CHECK(refused_by_kernelbench(terms, "fp16")->name == "builtins.ValueError");
}

TEST_CASE("statistics have three digits, and what was not timed is -1") {
  const auto result = exact_result(timed({1.23456, 3.45678}, {}), {}, "some-class");
  CHECK(result["protocol"] == protocol_kernelbench_exact);
  CHECK(result["end"] == "result");
  CHECK(result["runtime"] == 2.35);
  CHECK(result["runtime_stats"] == base::json{{"mean", 2.35},
                                              {"std", 1.11},  // over n
                                              {"min", 1.23},
                                              {"max", 3.46},
                                              {"num_trials", 2},
                                              {"hardware", "some-class"},
                                              {"device", "cpu"}});
  CHECK(result["ref_runtime"] == -1.0);
  CHECK(result["ref_runtime_stats"] == base::json::object());
  CHECK(result["metadata"]["hardware"] == "some-class");
  CHECK(result["metadata"]["device"] == "cpu");
}

TEST_CASE("a speed-up is flagged above ten, and nothing is rejected") {
  const exact_terms usual;
  const auto result = exact_result(timed({1}, {10.1}), usual, "c");
  CHECK(is_flagged(result));
  CHECK(result["correctness"] == true);
  CHECK_FALSE(is_flagged(exact_result(timed({1}, {10}), usual, "c")));
  // Of means that have three digits: 10.04 is 10.
  CHECK_FALSE(is_flagged(exact_result(timed({1}, {10.04}), usual, "c")));
  // One that is wrong is not timed; its reference is.
  const auto wrong = exact_result(timed({}, {10}), usual, "c");
  CHECK_FALSE(is_flagged(wrong));
  CHECK(wrong["ref_runtime"] == 10.0);
  exact_terms other;
  other.excessive_above = 2;
  CHECK(is_flagged(exact_result(timed({1}, {3}), other, "c")));
  other.reference_only = true;
  CHECK_FALSE(is_flagged(exact_result(timed({}, {3}), other, "c")));
}

TEST_CASE("a clock that stands still is a division by zero there, and an exception here") {
  const auto result = exact_result(timed({0, 0}, {1}), {}, "c");
  CHECK(result["end"] == "raised");
  CHECK(result["name"] == "builtins.ZeroDivisionError");
  CHECK(exact_result(timed({0, 0}, {}), {}, "c")["runtime"] == 0.0);
}

TEST_CASE("the ends of a child") {
  CHECK(exact_result(*parse_exact_answer(R"({"end": "retry"})"), {}, "c")["end"] == "retry");
  const auto raised = exact_result(
      *parse_exact_answer(R"({"end": "raised", "name": "builtins.KeyError", "text": "x"})"), {},
      "c");
  CHECK(raised["name"] == "builtins.KeyError");
  CHECK(raised["text"] == "x");
  CHECK(exact_without_result(exact_loss::lost, "why")["end"] == "lost");
  CHECK(exact_without_result(exact_loss::unsupported, "why")["text"] == "why");
  const auto whole = parse_exact_answer(base::dump(said_with("reference_ms", {1, 2.5})));
  REQUIRE(whole);
  CHECK(whole->reference_ms == std::vector<double>{1, 2.5});
  CHECK(whole->metadata["correctness_trials"] == "(5 / 5)");
}

TEST_CASE("an answer that a candidate made up is read within bounds") {
  REQUIRE(parse_exact_answer(base::dump(said_with())));
  const auto refused = [](const base::json& answer) {
    return !parse_exact_answer(base::dump(answer)).has_value();
  };
  CHECK(refused(base::json::array()));
  CHECK(refused({{"end", "ok"}}));
  CHECK(refused({{"end", "raised"}, {"name", 1}, {"text", ""}}));
  CHECK(refused(said_with("compiled", 1)));
  CHECK(refused(said_with("candidate_ms", "fast")));
  CHECK(refused(said_with("candidate_ms", {1, "2"})));
  CHECK(refused(said_with("candidate_ms", {1, 1e300})));
  CHECK(refused(said_with("reference_ms", std::vector<double>(10'001, 1.0))));
  CHECK(refused(said_with("metadata", "none")));
  CHECK(refused(said_with("metadata", {{"quern", {{"verdict", "ok"}}}})));
  CHECK(refused(said_with("metadata", {{"x", std::string(70'000, 'x')}})));
  CHECK(refused(said_with("metadata", {{"x", {1, 2}}})));
  base::json many = base::json::object();
  for (int i = 0; i < 33; ++i)
    many[std::to_string(i)] = "";
  CHECK(refused(said_with("metadata", many)));
}
