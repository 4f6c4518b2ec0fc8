// What a benchmark that goes on still has to judge.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "tools/bench/candidates.hpp"
#include "tools/bench/results.hpp"

namespace quern::tools {

/// Those of `earlier` that are about these candidates: of equal task and id, so that each sample of
/// a task stands for itself. Error: invalid_argument where one was judged with another source.
/// `file` is what the error calls the results.
base::expected<std::vector<bench_result>> matching_results(
    std::span<const bench_result> earlier, std::span<const bench_candidate> candidates,
    const std::string& file);

/// Indices of the candidates that none of `results` is about, ascending.
std::vector<std::size_t> unjudged(std::span<const bench_candidate> candidates,
                                  std::span<const bench_result> results);

}  // namespace quern::tools
