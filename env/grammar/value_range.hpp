// Interval arithmetic over compositions: what values h can have.
#pragma once

#include <cmath>

#include "env/grammar/composition.hpp"

namespace quern::env {

/// A closed interval of the extended reals that contains every element of h.
struct value_range {
  double low = -HUGE_VAL;
  double high = HUGE_VAL;
};

/// The range after a step, given the range before it. Sound, not tight.
value_range range_after(const composition_step& step, value_range before);

}  // namespace quern::env
