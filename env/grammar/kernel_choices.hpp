// Choices of how a generated kernel is written that every lane has.
#pragma once

#include <cstdint>

namespace quern::env {

enum class pass_plan : std::uint8_t {
  fused,      ///< all steps in one sweep over a row, as far as the structural step allows
  recompute,  ///< normalisations: the steps before are computed again instead of being kept
  split,  ///< the steps before and after the structural one in sweeps of their own, through a row
          ///< buffer
  passes  ///< one sweep over the whole tensor for each step
};

enum class math_kind : std::uint8_t {
  doubles,  ///< double variables, exp and tanh
  floats,   ///< float variables, expf and tanhf
  fast      ///< float variables, a polynomial in place of expf and tanhf that the compiler can
            ///< vectorise
};

}  // namespace quern::env
