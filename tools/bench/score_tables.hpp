// The rows with which a report begins: those of KernelBench, and the spread of speed-ups beside
// them. Pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "env/task/suite.hpp"
#include "tools/bench/bench_attempts.hpp"
#include "tools/bench/kernelbench_baselines.hpp"
#include "tools/bench/kernelbench_scores.hpp"
#include "tools/bench/statistics.hpp"

namespace quern::tools {

/// How near correct candidates came to the least time of their tasks (roofline_share()): of those
/// whose verdict tells it. All 0 for none.
struct roofline_shares {
  std::int64_t tasks = 0;
  double mean = 0, median = 0, largest = 0;
};

/// One view of a set of tasks. Each task counts once; one without a candidate, or whose candidate
/// has no verdict, is not compiled, not correct and not fast.
struct score_row {
  std::string view;  ///< "sample 0 of each task" or "best of each task"
  bool without_degenerate = false;
  std::int64_t tasks = 0, compiled = 0, correct = 0;
  std::array<double, kernelbench_thresholds.size()> fast = {};  ///< share of `tasks`
  /// Geometric mean, mean, maximum, percentiles and share above 1.01 of the correct ones that have
  /// a speed-up; attempts = tasks.
  speed_statistics speed;
  roofline_shares roofline;
};

/// Rows whose speed-ups are over one baseline.
struct score_table {
  std::string over;     ///< what the speed-ups are over, for people
  std::string warning;  ///< empty: none
  std::vector<score_row> rows;
};

/// Mean over tasks of pass@k. A task with fewer than k samples counts with those that it has; one
/// without any is 0; a sample without a verdict is wrong.
struct pass_row {
  bool without_degenerate = false;
  std::int64_t tasks = 0;
  std::vector<std::pair<std::int64_t, double>> of_k;  ///< k and the mean
};

struct bench_scores {
  std::int64_t degenerate = 0;  ///< tasks that are; rows without them are there where it is not 0
  /// Over what was measured beside each candidate (speed-ups as verdicts claim them), then over
  /// the times of each file that was given: the tasks that it has, speed-ups as KernelBench
  /// makes them, of mean times to three digits.
  std::vector<score_table> tables;
  std::vector<pass_row> pass;  ///< empty where no task has several candidates
};

/// `pass_k`: each at least 1. `given`: times of files.
bench_scores make_scores(const env::suite& suite, const task_attempts& attempts,
                         const bench_header& header, std::span<const std::int64_t> pass_k,
                         std::span<const kernelbench_baselines> given);

}  // namespace quern::tools
