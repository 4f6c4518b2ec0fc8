// What a composition means: scalar interpreters, independent of every generated text.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "env/grammar/composition.hpp"

namespace quern::env {

/// x has n*m elements, w has m, t has n*m; w and t may be empty where the composition does not read
/// them.
struct composition_inputs {
  std::int64_t n = 0;
  std::int64_t m = 0;
  std::span<const float> x;
  std::span<const float> w;
  std::span<const float> t;
};

/// How it is computed.
enum class arithmetic : std::uint8_t {
  exact,   ///< double throughout: the meaning
  single,  ///< float, sums in order: what a straightforward kernel does
  fast     ///< float, with the approximations of math_kind::fast (kernel_choices.hpp)
};

/// Number of output elements: n*m, or n after a reduction.
std::int64_t output_elements(const composition& what, std::int64_t n, std::int64_t m);

/// The output in memory order ([m, n] after a transposition). The composition is valid and the
/// spans have the sizes stated above.
std::vector<double> interpret(const composition& what, const composition_inputs& inputs,
                              arithmetic how = arithmetic::exact);

/// The short approximation of exp that generated kernels use: third-order polynomial at v/64, then
/// six squarings; arguments below -80 count as -80. Absolute error below 1e-5 on [-1e8, 0],
/// relative error below 6e-5 on [-4, 4]; beyond -1e9 the cut at -80 fails and the result is 1.
float fast_exp(float v);

}  // namespace quern::env
