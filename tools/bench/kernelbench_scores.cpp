#include "tools/bench/kernelbench_scores.hpp"

#include <cmath>

namespace quern::tools {

double rate_of(std::int64_t count, std::int64_t total) {
  return total > 0 ? static_cast<double>(count) / static_cast<double>(total) : 0;
}

double geometric_mean_of_correct(std::span<const scored_problem> problems) {
  double product = 1;
  std::int64_t correct = 0;
  for (const scored_problem& one : problems) {
    if (!one.correct) continue;
    product *= one.baseline_ms / one.runtime_ms;
    ++correct;
  }
  return correct > 0 ? std::pow(product, 1.0 / static_cast<double>(correct)) : 0;
}

double fast_p(std::span<const scored_problem> problems, double p) {
  std::int64_t fast = 0;
  for (const scored_problem& one : problems)
    fast += one.correct && one.baseline_ms / one.runtime_ms > p ? 1 : 0;
  return rate_of(fast, static_cast<std::int64_t>(problems.size()));
}

double pass_at_k(std::int64_t samples, std::int64_t correct, std::int64_t k) {
  if (samples - correct < k) return 1;
  double all_fail = 1;
  for (std::int64_t i = samples - correct + 1; i <= samples; ++i)
    all_fail *= 1.0 - static_cast<double>(k) / static_cast<double>(i);
  return 1.0 - all_fail;
}

std::vector<std::int64_t> usual_pass_k(std::int64_t most) {
  std::vector<std::int64_t> chosen;
  for (const std::int64_t k : {1, 5, 10, 100})
    if (k <= most) chosen.push_back(k);
  return chosen;
}

}  // namespace quern::tools
