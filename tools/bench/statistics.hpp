// The figures of a benchmark: pure functions of verdicts.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "env/task/suite.hpp"
#include "tools/bench/results.hpp"

namespace quern::tools {

/// The p of fast_p.
inline constexpr std::array<double, 5> fast_thresholds = {0.8, 1, 1.5, 2, 3};
/// A speed-up above it counts as one: smaller ones are within what a verdict leaves open.
inline constexpr double faster_threshold = 1.01;

/// Of a set of attempts. A failure has no speed-up: it is absent from mean, geometric mean, maximum
/// and percentiles (all 0 where nothing succeeded) and counts in every share, as not successful and
/// not fast. `mean_failures_0` counts it as a speed-up of 0.
struct speed_statistics {
  std::int64_t attempts = 0, successes = 0;
  double mean = 0, geometric_mean = 0, max = 0, p75 = 0, p50 = 0, p25 = 0;
  double mean_failures_0 = 0;
  double success_share = 0;
  double faster_share = 0;                               ///< speed-up > 1.01
  std::array<double, fast_thresholds.size()> fast = {};  ///< share of speed-ups > p
  friend bool operator==(const speed_statistics&, const speed_statistics&) = default;
};

/// `speedups` are those of the successes, all finite and positive; `attempts` counts the failures,
/// too, and is at least their number.
speed_statistics statistics_of(std::span<const double> speedups, std::int64_t attempts);

/// One set of tasks in two views.
struct report_group {
  std::string kind;  ///< "all", "device", "split" or "family"
  std::string name;
  speed_statistics best;   ///< each task once, by its fastest success; none: a failure
  speed_statistics every;  ///< each candidate that was judged
  std::int64_t tasks = 0, without_candidates = 0, unmeasured = 0;
};

struct report_task {
  std::string name, family;
  bool held_out = false;
  std::int64_t candidates = 0, judged = 0, successes = 0, unmeasured = 0;
  double best_speedup = 0;     ///< 0: no success
  double mean_speedup = 0;     ///< of the successes
  std::string best_candidate;  ///< id; the first of equals
};

/// A candidate that no device is given any more (is_left_out).
struct left_out_candidate {
  std::string task, candidate, why;
};

struct bench_report {
  bench_header header;
  std::int64_t candidates = 0;                ///< that were given
  std::int64_t without_verdict = 0;           ///< of them: not judged yet, or the host failed
  std::vector<report_group> groups;           ///< all, devices, split, families
  std::vector<report_task> tasks;             ///< in the suite's order
  std::map<std::string, std::int64_t> kinds;  ///< verdicts by kind
  /// Candidates that no host of the device class can run, by reason.
  std::map<std::string, std::int64_t> unsupported;
  std::vector<double> every_speedup;  ///< of all successes, ascending
  std::vector<left_out_candidate> left_out;
};

/// `candidates[i]` of them were given for task i of the suite. `results`: at most one a candidate,
/// all of the suite's tasks. Verdicts that say nothing about a candidate (judges_candidate) are
/// left out of "every" and counted as `unmeasured`.
bench_report make_report(const bench_header& header, const env::suite& suite,
                         std::span<const std::int64_t> candidates,
                         std::span<const bench_result> results);

/// What a verdict `unsupported` lacks, without what differs from task to task: names in quotes and
/// sizes are put as '...' and N.
std::string unsupported_reason(const env::verdict& v);

/// What a report says of unsupported candidates, with each reason and its count; empty where there
/// are none.
std::string unsupported_note(const bench_report& report);

/// The rules of the figures, in sentences, for every form of the report.
std::span<const std::string_view> report_rules();

}  // namespace quern::tools
