// The loop that looks at every timed output: compiled with vectors (CMakeLists.txt).
#include "env/judge/compare_block.hpp"

#include <cmath>
#include <limits>

namespace quern::env {
namespace {

template <class T>
bool all_right(const T* got, const T* want, std::size_t count, T atol, T rtol) {
  unsigned wrong = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const T bound = atol + rtol * std::abs(want[i]);
    // An infinite `want` makes the bound infinite.
    wrong |= static_cast<unsigned>(!(std::abs(got[i] - want[i]) <= bound)) |
             static_cast<unsigned>(!(bound <= std::numeric_limits<T>::max()));
  }
  return wrong == 0;
}

}  // namespace

bool block_right(const float* got, const float* want, std::size_t count, float atol, float rtol) {
  return all_right(got, want, count, atol, rtol);
}
bool block_right(const double* got, const double* want, std::size_t count, double atol,
                 double rtol) {
  return all_right(got, want, count, atol, rtol);
}

}  // namespace quern::env
