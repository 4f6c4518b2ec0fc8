// Large claims: when they are measured again, what they count for until then, and what the second
// measurement says.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace quern::env {

/// What a claim is compared with. All speed-ups are x 100.
struct claim_limits {
  std::int64_t recheck_above_e2 = 3000;
  /// 0: nothing is known yet.
  std::int64_t best_known_e2 = 0;
};

/// The largest speed-up that counts without a second measurement: recheck_above, or twice the best
/// known where that is lower.
std::int64_t unconfirmed_cap_e2(const claim_limits& limits);

/// Whether the claim is above that.
bool needs_recheck(std::int64_t speedup_e2, const claim_limits& limits);

/// Whether measurements in fresh processes bear a claim out: any two of them are at most 10 %
/// apart, as a ratio of the larger to the smaller. Then the lowest of all counts, which this
/// returns: one slow measurement costs an honest kernel speed and not its verdict, and luck gains
/// nothing. Nothing is returned for `unconfirmed`.
std::optional<std::int64_t> confirmed_e2(std::span<const std::int64_t> claims_e2);

/// Whether a third measurement is to decide between two that are too far apart: up to half as much
/// again is what the places of an honest kernel's memory can do.
bool needs_third(std::int64_t first_e2, std::int64_t second_e2);

/// Whether a time is impossible: less than half the roofline floor. The floor assumes cache
/// bandwidth and one core's peak; the factor covers what those were measured wrong by, and boost
/// clocks. floor_ns <= 0: no floor is known, nothing is impossible.
bool beats_roofline(double call_ns, double floor_ns);

}  // namespace quern::env
