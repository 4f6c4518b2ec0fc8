// The candidates of a benchmark that were not right, by name, and why.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "tools/bench/results.hpp"

namespace quern::tools {

/// Lines that a person reads on a terminal; all verdicts are in the file of results.
inline constexpr std::size_t most_not_right_lines = 20;

/// A heading, then a line a candidate: task, candidate, verdict and reason; first those that are
/// wrong, then those of which nothing is known, each in the order of `results`. At most `most`
/// candidates, then how many more there are in `file`. Empty where all are `ok`.
std::string not_right_text(std::span<const bench_result> results, const std::string& file,
                           std::size_t most = most_not_right_lines);

}  // namespace quern::tools
