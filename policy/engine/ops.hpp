// The small operations of the model on tensors. On the CPU they are the host kernels
// (kernels/table.hpp, where shapes and formulas are written); on a GPU our own (policy/device), for
// float32 and bfloat16 elements with float32 statistics; for bfloat16 on the CPU the scalar table
// of the same kernels; on anything else, compositions of ATen
// operators with the same meaning (namespace generic, which also runs on the CPU so that tests can
// hold the two against each other). Outputs are preallocated and contiguous.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "policy/engine/kernels/table.hpp"

namespace quern::policy::ops {

using kernels::head_shape;

/// Per-head norms and rotary tables of a block; norms may be undefined.
struct head_arguments {
  head_shape shape;
  at::Tensor q_norm, k_norm;  ///< [dim]
  double eps = 0;
  at::Tensor cos, sin;   ///< [positions, dim / 2]
  at::Tensor positions;  ///< [rows] int64
};

/// What a tile of causal attention knows: row r sees the first `first + r / group` columns.
struct tile_mask {
  std::int64_t group = 1;
  std::int64_t first = 1;
  double scale = 1;
};

/// Where each row of a pass belongs, [rows] int64 on the host: its slot and position, and the slot
/// that holds the first `shared` positions of its sequence (a multiple of key_block, at most the
/// row's position).
struct cache_rows {
  at::Tensor slots, positions, prompt_slots, shared;
};

/// One layer's keys [slots, kv_heads, capacity / key_block, dim, key_block] and values
/// [slots, kv_heads, capacity, dim], and room for 4 * (capacity + key_block) scores.
/// cached_attention stores every row's key and value, then every row attends up to itself.
struct layer_cache {
  at::Tensor keys, values, scratch;
};

/// log_softmax_gradient writes to `out`, which is z itself or of a narrower element; z is lost
/// either way.
#define QUERN_POLICY_OPERATIONS                                                                    \
  void rms_norm(const at::Tensor& x, const at::Tensor& w, double eps, at::Tensor& y,               \
                at::Tensor& rstd);                                                                 \
  void rms_norm_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& w,           \
                         const at::Tensor& rstd, at::Tensor& dx, at::Tensor& dw);                  \
  void split_heads(const head_arguments& how, const at::Tensor& qkv, at::Tensor& q, at::Tensor& k, \
                   at::Tensor& v, at::Tensor& rstd);                                               \
  void split_heads_backward(const head_arguments& how, const at::Tensor& dq, const at::Tensor& dk, \
                            const at::Tensor& dv, const at::Tensor& qkv, const at::Tensor& rstd,   \
                            at::Tensor& dqkv, at::Tensor& dq_norm, at::Tensor& dk_norm);           \
  void swiglu(const at::Tensor& gate_up, at::Tensor& act);                                         \
  void swiglu_backward(const at::Tensor& d_act, const at::Tensor& gate_up, at::Tensor& d_gate_up); \
  void softmax_tile(at::Tensor& s, const tile_mask& mask, at::Tensor& lse);                        \
  void softmax_tile_backward(at::Tensor& s, at::Tensor& dp, const tile_mask& mask,                 \
                             const at::Tensor& lse, const at::Tensor& delta);                      \
  void log_softmax_rows(const at::Tensor& z, const at::Tensor& targets,                            \
                        const at::Tensor& inverse_temperature, std::int64_t valid,                 \
                        at::Tensor& log_prob, at::Tensor& entropy, at::Tensor& lse);               \
  void log_softmax_gradient(at::Tensor& z, const at::Tensor& targets,                              \
                            const at::Tensor& inverse_temperature, const at::Tensor& lse,          \
                            const at::Tensor& gradient, std::int64_t valid, at::Tensor& out);      \
  void cached_attention(const head_shape& shape, const at::Tensor& q, const at::Tensor& k,         \
                        const at::Tensor& v, const cache_rows& where, layer_cache& cache,          \
                        at::Tensor& out);

QUERN_POLICY_OPERATIONS

namespace generic {
QUERN_POLICY_OPERATIONS
}  // namespace generic

#undef QUERN_POLICY_OPERATIONS

}  // namespace quern::policy::ops
