#include "env/judge/claim_words.hpp"

#include "env/measure/measure_name.hpp"
#include "env/measure/rounding.hpp"

namespace quern::env {

std::string claim_words(const verdict& v) {
  const bool measured = v.kind == verdict_kind::ok && v.speedup_e2 && v.time &&
                        v.time->log_ratio_e9.size() == 3 && v.protocol.starts_with(protocol_paired);
  if (!measured) return {};
  const auto end_e2 = [&](std::size_t i) {
    return conservative_e2(static_cast<double>(v.time->log_ratio_e9[i]) * 1e-9, 0);
  };
  const std::int64_t claim = *v.speedup_e2;
  const bool contains_one = v.time->log_ratio_e9[0] <= 0 && v.time->log_ratio_e9[2] >= 0;
  // In the order of the rules in docs/measuring.md.
  if (v.claim_e2) return "a cap, until a second measurement bears out what was measured";
  if (claim == 100 && contains_one)
    return "no difference is claimed, because the interval contains 1";
  if (claim == end_e2(1)) return "what was measured, rounded toward 1";
  if (claim == 100)
    return "no difference is claimed, because a kernel measured against itself is as far from 1";
  if (claim == end_e2(0))
    return "the slow end of the interval, because the kernel is uneven and the baseline is not";
  if (v.confirmed && *v.confirmed)
    return "the lowest of several measurements in fresh processes, rounded toward 1";
  return {};
}

}  // namespace quern::env
