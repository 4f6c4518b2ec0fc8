// What the tests of quern bench share: a shipped suite and made-up verdicts.
#pragma once

#include <string>
#include <string_view>

#include "env/task/suite.hpp"
#include "support/test.hpp"
#include "tools/bench/results.hpp"

namespace quern::test {

inline const env::suite& quick_suite() {
  static const env::suite suite = env::load_suite(source_dir() / "env/suites/cpu_quick").value();
  return suite;
}

inline tools::bench_header made_header() {
  return {"cpu_quick", tools::suite_hash(quick_suite()), "cpp", "paired/1", "cpp-avx2", "e1", 500};
}

/// An `ok` of that speed-up (1/100), or any other kind.
inline tools::bench_result made_result(std::string_view task, std::string_view id,
                                       env::verdict_kind kind, std::int64_t speedup_e2 = 0) {
  tools::bench_result result{std::string(task), std::string(id), "hash of " + std::string(id), {}};
  result.verdict.kind = kind;
  result.verdict.task = task;
  result.verdict.protocol = "paired/1";
  result.verdict.device_class = "cpp-avx2";
  result.verdict.env = "e1";
  if (kind == env::verdict_kind::hack) result.verdict.reason = "timing";
  if (kind == env::verdict_kind::ok) {
    result.verdict.speedup_e2 = speedup_e2;
    env::timing time;
    time.ref_ns.assign(7, 1000);
    time.cand_ns.assign(7, 1000);
    time.log_ratio_e9 = {-1, 0, 1};
    time.windows = 7;
    result.verdict.time = time;
  }
  return result;
}

}  // namespace quern::test
