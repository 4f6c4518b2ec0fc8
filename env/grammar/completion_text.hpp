// What the corpus teaches a policy to write around a kernel: one informative line in each section.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "env/grammar/variants.hpp"
#include "env/verdict/verdict.hpp"

namespace quern::env {

/// A variant that a prompt shows, with its score (speed-up over the baseline in 1/100).
struct scored_variant {
  kernel_variant variant;
  std::int64_t speedup_e2 = 0;  ///< 0 where it is wrong
  verdict_kind verdict = verdict_kind::ok;
};

/// With exemplars, which is fastest and what it is: "2 leads: rows fused fast hoist.", counted from
/// 1 in the order shown. Without, what the task is made of: "4 steps, 2 exp, softmax."
std::string analysis_line(const composition& what, std::span<const scored_variant> shown);

/// The whole completion with analysis_line.
std::string completion_text(const composition& what, const kernel_variant& variant,
                            std::span<const scored_variant> shown, std::string_view fence);

/// The whole completion as render_completion writes it: `analysis`, the style as design, the code
/// behind the word `fence` of its lane.
std::string completion_text(std::string analysis, const kernel_variant& variant,
                            std::string_view fence);

}  // namespace quern::env
