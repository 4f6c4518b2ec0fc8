// What both lanes' lists of styles share.
#include "env/grammar/style_forms.hpp"

#include "env/grammar/value_range.hpp"

namespace quern::env {

bool any_step(const composition& what, bool (*wanted)(step_kind)) {
  return std::any_of(what.steps.begin(), what.steps.end(),
                     [&](const composition_step& step) { return wanted(step.kind); });
}

bool needs_no_shift(const composition& what) {
  constexpr double unshifted_range = 3;
  value_range range;
  for (std::size_t k = 0; k < structural_index(what); ++k)
    range = range_after(what.steps[k], range);
  return range.low >= -unshifted_range && range.high <= unshifted_range;
}

}  // namespace quern::env
