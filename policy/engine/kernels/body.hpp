// One instruction level of the host kernels: define QUERN_ISA (a namespace name) and
// QUERN_VECTOR_BYTES, then include this.
#pragma once

#include <cstddef>

// The last two need the names of the first two.
// clang-format off
#include "policy/engine/kernels/table.hpp"
#include "policy/engine/kernels/vectors.hpp"
#include "policy/engine/kernels/attention.hpp"
#include "policy/engine/kernels/rows.hpp"
// clang-format on

namespace quern::policy::kernels::QUERN_ISA {

#define QUERN_TEXT_INNER(x) #x
#define QUERN_TEXT(x) QUERN_TEXT_INNER(x)

template <class T>
constexpr kernel_table<T> make_table() {
  return {QUERN_TEXT(QUERN_ISA),    rms_norm<T>,         rms_norm_backward<T>,    split_heads<T>,
          split_heads_backward<T>,  swiglu<T>,           swiglu_backward<T>,      softmax_tile<T>,
          softmax_tile_backward<T>, log_softmax_rows<T>, log_softmax_gradient<T>, store_row<T>,
          cached_attention<T>};
}

extern const kernel_table<float> table_f32;
extern const kernel_table<double> table_f64;
const kernel_table<float> table_f32 = make_table<float>();
const kernel_table<double> table_f64 = make_table<double>();

}  // namespace quern::policy::kernels::QUERN_ISA
