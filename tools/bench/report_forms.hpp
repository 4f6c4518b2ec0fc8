// The report of a benchmark as text, JSON and HTML. Pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/json.hpp"
#include "tools/bench/score_tables.hpp"
#include "tools/bench/statistics.hpp"

namespace quern::tools {

/// For a terminal: KernelBench's rows, the tables of all groups, the verdicts by kind, the rules.
/// `each_task` adds a line a task.
std::string to_text(const bench_report& report, const bench_scores& scores, bool each_task);

/// All figures of the report; {"quern_bench_report": 1, ...}.
base::ordered_json to_json(const bench_report& report, const bench_scores& scores);

/// One page that needs nothing else: tables and plots (SVG). Names and ids are escaped.
std::string to_html(const bench_report& report, const bench_scores& scores);

/// KernelBench's rows alone: parts of the three above.
std::string to_text(const bench_scores& scores);
base::ordered_json to_json(const bench_scores& scores);
std::string to_html(const bench_scores& scores);

/// `text` for the inside of an element or of a quoted attribute.
std::string escape_html(std::string_view text);

/// The plots of to_html, each an <svg> element.
/// Share of attempts whose speed-up is above p, against p (logarithmic), for two sets: the fastest
/// of each task, and every candidate. Ascending speed-ups of the successes.
std::string plot_fast(std::span<const double> best, std::int64_t tasks,
                      std::span<const double> every, std::int64_t judged);
/// A bar a task, sorted by its speed-up, from 1.0 to the right or left (logarithmic).
std::string plot_tasks(const bench_report& report);
/// A bar a kind of verdict.
std::string plot_kinds(const bench_report& report);

/// One line: what is done of all, rate, time that is left, the verdicts so far. `fresh` of `done`
/// were judged in the last `elapsed`; the others were there before.
std::string progress_line(std::int64_t done, std::int64_t all, std::int64_t fresh,
                          std::int64_t successes, base::nanoseconds_t elapsed);

}  // namespace quern::tools
