// Large claims.
#include "env/measure/recheck.hpp"

#include <algorithm>
#include <vector>

namespace quern::env {

std::int64_t unconfirmed_cap_e2(const claim_limits& limits) {
  if (limits.best_known_e2 <= 0) return limits.recheck_above_e2;
  // A best known below 1.00 must not make every honest baseline-speed kernel a large claim.
  const std::int64_t twice = 2 * std::max<std::int64_t>(limits.best_known_e2, 100);
  return std::min(limits.recheck_above_e2, twice);
}

bool needs_recheck(std::int64_t speedup_e2, const claim_limits& limits) {
  return speedup_e2 > unconfirmed_cap_e2(limits);
}

std::optional<std::int64_t> confirmed_e2(std::span<const std::int64_t> claims_e2) {
  std::vector<std::int64_t> sorted(claims_e2.begin(), claims_e2.end());
  std::sort(sorted.begin(), sorted.end());
  if (sorted.empty() || sorted[0] <= 0) return std::nullopt;
  for (std::size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i] * 10 <= sorted[i - 1] * 11) return sorted[0];
  return std::nullopt;
}

bool needs_third(std::int64_t first_e2, std::int64_t second_e2) {
  const auto [low, high] = std::minmax(first_e2, second_e2);
  return low > 0 && high * 10 > low * 11 && high * 10 <= low * 15;
}

bool beats_roofline(double call_ns, double floor_ns) {
  return floor_ns > 0 && call_ns < 0.5 * floor_ns;
}

}  // namespace quern::env
