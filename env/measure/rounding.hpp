// The speed-up that is stored: 1/100, rounded toward 1, and exactly 1.00 where a claim is not above
// the noise.
#pragma once

#include <cstdint>

namespace quern::env {

/// Speed-up x 100 from ln(baseline / candidate), rounded toward 100: what is claimed is never more
/// than what was measured. A claim with |log_ratio| <= null_half_width is 100. At least 1 and at
/// most 100 million.
std::int64_t conservative_e2(double log_ratio, double null_half_width);

/// ln ratio x 1e9 as the verdict stores it.
std::int64_t to_e9(double log_ratio);

}  // namespace quern::env
