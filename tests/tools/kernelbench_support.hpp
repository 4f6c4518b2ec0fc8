// What the tests of KernelBench's forms share: a suite with places, candidates and verdicts of it.
#pragma once

#include <string>
#include <vector>

#include "tools/bench/bench_attempts.hpp"
#include "tools/bench_support.hpp"

namespace quern::test {

/// Level 1, problems 10, 3, 2 and 4, in this order; the last one is degenerate.
inline env::suite placed_suite() {
  env::suite suite;
  suite.name = "placed";
  const auto add = [&](const char* name, int problem) {
    env::suite_member member;
    member.task.name = name;
    member.task.family = "made";
    member.id = member.task.name + "@0";
    member.place = env::benchmark_place{1, problem, std::to_string(problem) + "_Made.py"};
    suite.members.push_back(std::move(member));
  };
  add("t_ten", 10);
  add("t_three", 3);
  add("t_two", 2);
  add("t_four", 4);
  suite.members.back().task.degenerate = true;
  return suite;
}

inline tools::bench_candidate placed_candidate(const env::suite& suite, std::size_t member,
                                               std::int64_t sample) {
  tools::bench_candidate one;
  one.member = member;
  one.task = suite.members[member].task.name;
  one.id = "level_1_problem_" + std::to_string(suite.members[member].place->problem) + "_sample_" +
           std::to_string(sample) + "_kernel.py";
  one.sample = sample;
  return one;
}

inline env::timing made_time(std::vector<std::int64_t> ref_ns, std::vector<std::int64_t> cand_ns) {
  env::timing time;
  time.ref_ns = std::move(ref_ns);
  time.cand_ns = std::move(cand_ns);
  time.log_ratio_e9 = {-1, 0, 1};
  time.windows = 93;
  return time;
}

inline tools::bench_result placed_result(const tools::bench_candidate& of, env::verdict_kind kind) {
  tools::bench_result result{of.task, of.id, "hash", {}};
  result.verdict.kind = kind;
  result.verdict.task = of.task;
  result.verdict.protocol = "paired/1";
  result.verdict.device_class = "gpu-x";
  result.verdict.env = "e1";
  return result;
}

/// Problem 2: right (2x) and wrong; problem 3: does not compile; problem 10: right (20x); problem 4
/// has no candidate.
struct placed_run {
  env::suite suite = placed_suite();
  std::vector<tools::bench_candidate> candidates = {
      placed_candidate(suite, 0, 0), placed_candidate(suite, 1, 0), placed_candidate(suite, 2, 0),
      placed_candidate(suite, 2, 1)};
  std::vector<tools::bench_result> results = made();

  [[nodiscard]] tools::task_attempts attempts() const {
    return tools::attempts_of(suite, candidates, results);
  }

 private:
  [[nodiscard]] std::vector<tools::bench_result> made() const {
    std::vector<tools::bench_result> all = {
        placed_result(candidates[0], env::verdict_kind::ok),
        placed_result(candidates[1], env::verdict_kind::compile_error),
        placed_result(candidates[2], env::verdict_kind::ok),
        placed_result(candidates[3], env::verdict_kind::wrong_value)};
    all[0].verdict.speedup_e2 = 2000;
    all[0].verdict.confirmed = true;
    all[0].verdict.time = made_time({240, 240, 240, 240, 240, 240, 240},  //
                                    {12, 12, 12, 12, 12, 12, 12});
    all[1].verdict.detail = "it does not compile";
    all[1].verdict.compiler =
        env::compiler_report{{"nvcc"}, 52, "k.cu: error: \u2018x\u2019 is \"undeclared\"\n"};
    all[2].verdict.speedup_e2 = 200;
    all[2].verdict.time =
        made_time({4200000, 4200000, 4200000, 4200000, 4200000, 4200000, 4200000},
                  {2000000, 2000000, 2000000, 2000000, 2000000, 2000000, 2700000});
    all[2].verdict.checks = {{"hidden: a", true, ""}, {"hidden: b", true, ""}};
    all[2].verdict.device = env::device_conditions{};
    all[2].verdict.device->bus_id = "0000:0F:00.0";
    all[3].verdict.detail = "y[0] is 1, should be 2";
    all[3].verdict.checks = {{"hidden: a", false, "differs"}};
    return all;
  }
};

}  // namespace quern::test
