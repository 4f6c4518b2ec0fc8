#include "actors/decide/finalists.hpp"

#include <algorithm>
#include <numeric>

namespace quern::actors {
namespace {

constexpr int most_measurements = 3;

/// A confirmed claim may lie below the interval of the measurement that bore it out.
std::int64_t low_end(const found_kernel& kernel) {
  return std::min(kernel.speedup_e2, kernel.low_e2);
}

std::int64_t high_end(const found_kernel& kernel) {
  return std::max(kernel.speedup_e2, kernel.high_e2);
}

}  // namespace

std::size_t count_finalists(std::span<const found_kernel> kernels) {
  if (!kernels.empty() && kernels.front().high_e2 == 0) return 1;
  std::size_t count = 0;
  while (count < std::min(kernels.size(), most_finalists) &&
         high_end(kernels[count]) >= low_end(kernels.front()))
    ++count;
  return count;
}

bool disagree(const found_kernel& one, const found_kernel& other) {
  if (one.high_e2 == 0 || other.high_e2 == 0) return false;
  return high_end(one) < low_end(other) || high_end(other) < low_end(one);
}

std::vector<std::size_t> ranked_again(std::span<const env::verdict> again) {
  std::vector<std::size_t> ranked(again.size());
  std::iota(ranked.begin(), ranked.end(), 0);
  std::ranges::stable_sort(ranked, std::ranges::greater(), [&](std::size_t i) {
    return again[i].kind == env::verdict_kind::ok ? again[i].speedup_e2.value_or(0) : -1;
  });
  return ranked;
}

base::expected<env::verdict> judge_while_noisy(double seconds, const kernel_judge& judge) {
  for (int left = most_measurements;; seconds *= 2) {
    QUERN_TRY(env::verdict verdict, judge(seconds));
    if (verdict.kind != env::verdict_kind::noisy || --left == 0) return verdict;
  }
}

}  // namespace quern::actors
