// What the corpus teaches a policy to write around a kernel: one informative line in each section.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "env/grammar/variants.hpp"

namespace quern::env {

/// A variant that a prompt shows, with its measured score.
struct scored_variant {
  kernel_variant variant;
  std::int64_t speedup_e2 = 0;
};

/// "Kernel 2 leads 310 to 95: rows, fused, fast." with two exemplars; without, which steps are
/// dear: "4 steps, 2 with exp, then row_sum."
std::string analysis_line(const composition& what, std::span<const scored_variant> shown);

/// The whole completion as render_completion writes it: analysis, the style as design, the code.
std::string completion_text(const composition& what, const kernel_variant& variant,
                            std::span<const scored_variant> shown);

}  // namespace quern::env
