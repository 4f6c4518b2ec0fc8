// Candidates that were not right are named, with the reason.
#include "tools/bench/not_right.hpp"
#include "tools/bench_support.hpp"

using namespace quern;
using env::verdict_kind;
using test::made_result;

TEST_CASE("candidates that were not right are named first, then those of which nothing is known") {
  std::vector<tools::bench_result> results = {
      made_result("abs_smooth_shift", "right", verdict_kind::ok, 150),
      made_result("abs_smooth_shift", "uneven", verdict_kind::noisy),
      made_result("tanh_transpose", "tail", verdict_kind::wrong_value),
      made_result("tanh_transpose", "typo\x1b[31m", verdict_kind::compile_error)};
  results[2].verdict.first_diff = env::first_difference{"y", {0, 3}, "0x1.8p+0", "0x1p+0"};
  results[3].verdict.compiler.emplace();
  results[3].verdict.compiler->text = "k.cpp: In function 'k':\nk.cpp:2:3: error: 'foo'\n";
  const std::string text = tools::not_right_text(results, "results.jsonl");
  CHECK(text ==
        "2 candidates were not right, of 1 more nothing is known:\n"
        "  tanh_transpose  tail  wrong_value: y[0,3] is 1.5 (0x1.8p+0), should be 1 (0x1p+0)\n"
        "  tanh_transpose  typo\\x1b[31m  compile_error: k.cpp:2:3: error: 'foo'\n"
        "  abs_smooth_shift  uneven  noisy\n");
  CHECK(tools::not_right_text(results, "results.jsonl", 1)
            .ends_with("  and 2 more: results.jsonl has all verdicts\n"));
}

TEST_CASE("where all candidates are right nothing is said") {
  const std::vector<tools::bench_result> results = {
      made_result("abs_smooth_shift", "right", verdict_kind::ok, 150)};
  CHECK(tools::not_right_text(results, "results.jsonl").empty());
  CHECK(tools::not_right_text({}, "results.jsonl").empty());
}
