// Causal grouped-query attention over packed segments, forward and backward; probabilities are
// recomputed in the backward pass from the row's log-sum (arXiv 2205.14135). In tiles: scores of
// one tile of queries and one key/value head exist at a time. For bfloat16 on a GPU in ATen's fused
// operator, all segments at once (flash_attention.hpp).
#pragma once

#include <span>

#include <ATen/core/Tensor.h>

#include "policy/engine/kernels/table.hpp"
#include "policy/engine/model.hpp"

namespace quern::policy {

/// Buffers that grow to the largest tile seen.
struct attention_scratch {
  at::Tensor scores, gradients;               ///< one tile each
  at::Tensor keys, values, d_keys, d_values;  ///< prefix and own rows side by side
  at::Tensor heads, delta;                    ///< of all rows, as q and as lse
};

/// q [kv_heads, rows, group, dim], k and v [kv_heads, rows, dim] -> out [rows, kv_heads * group *
/// dim] and lse, of the wide type (products.hpp), whose layout is the affair of these two: kv_heads
/// * rows * group values.
void attend(const kernels::head_shape& shape, const packed_rows& rows, const at::Tensor& q,
            const at::Tensor& k, const at::Tensor& v, at::Tensor& out, at::Tensor& lse,
            attention_scratch& scratch);
/// `out` and `lse` are those of `attend`. Overwrites dq, dk and dv.
void attend_backward(const kernels::head_shape& shape, const packed_rows& rows, const at::Tensor& q,
                     const at::Tensor& k, const at::Tensor& v, const at::Tensor& out,
                     const at::Tensor& lse, const at::Tensor& d_out, at::Tensor& dq, at::Tensor& dk,
                     at::Tensor& dv, attention_scratch& scratch);

/// In tiles: out as q, lse [kv_heads, rows, group].
void attention_forward(const kernels::head_shape& shape, std::span<const segment> segments,
                       const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       at::Tensor& out, at::Tensor& lse, attention_scratch& scratch);

/// `delta` [kv_heads, rows, group] is the sum over dim of d_out * out. Overwrites dq, dk and dv.
void attention_backward(const kernels::head_shape& shape, std::span<const segment> segments,
                        const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                        const at::Tensor& lse, const at::Tensor& d_out, const at::Tensor& delta,
                        at::Tensor& dq, at::Tensor& dk, at::Tensor& dv, attention_scratch& scratch);

/// The first n elements of `buffer` as `shape`; a buffer that is too small (or undefined) is
/// replaced by a larger one like `model`.
at::Tensor take(at::Tensor& buffer, at::IntArrayRef shape, const at::TensorOptions& model);
inline at::Tensor take(at::Tensor& buffer, at::IntArrayRef shape, const at::Tensor& model) {
  return take(buffer, shape, model.options());
}

}  // namespace quern::policy
