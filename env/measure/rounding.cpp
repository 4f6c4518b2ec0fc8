// The speed-up that is stored.
#include "env/measure/rounding.hpp"

#include <algorithm>
#include <cmath>

namespace quern::env {

std::int64_t conservative_e2(double log_ratio, double null_half_width) {
  if (std::abs(log_ratio) <= null_half_width) return 100;
  const double e2 = 100.0 * std::exp(log_ratio);
  // exp and log do not invert each other exactly: 1.5 must not become 1.49.
  constexpr double slack = 1e-9;
  const double rounded = e2 > 100 ? std::floor(e2 * (1 + slack)) : std::ceil(e2 * (1 - slack));
  return static_cast<std::int64_t>(std::clamp(rounded, 1.0, 1e8));
}

std::int64_t to_e9(double log_ratio) {
  return std::llround(log_ratio * 1e9);
}

}  // namespace quern::env
