// The lines around a kernel.
#include "env/grammar/completion_text.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "env/prompt/completion.hpp"

namespace quern::env {

std::string analysis_line(const composition& what, std::span<const scored_variant> shown) {
  if (shown.empty()) {
    const auto dear =
        std::count_if(what.steps.begin(), what.steps.end(),
                      [](const composition_step& step) { return is_transcendental(step.kind); });
    return fmt::format("{} steps, {} exp, {}.", what.steps.size(), dear, family_of(what));
  }
  const auto best = std::max_element(
      shown.begin(), shown.end(),
      [](const scored_variant& a, const scored_variant& b) { return a.speedup_e2 < b.speedup_e2; });
  return fmt::format("{} leads: {}.", best - shown.begin() + 1, best->variant.style);
}

std::string completion_text(const composition& what, const kernel_variant& variant,
                            std::span<const scored_variant> shown, std::string_view fence) {
  return completion_text(analysis_line(what, shown), variant, fence);
}

std::string completion_text(std::string analysis, const kernel_variant& variant,
                            std::string_view fence) {
  return render_completion({std::move(analysis), variant.style + ".", variant.source}, fence);
}

}  // namespace quern::env
