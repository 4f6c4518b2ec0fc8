// The fused host kernels of the policy: norm, rotary and head layout, SwiGLU, softmax tiles,
// log-softmax rows, cached attention. Each is written once (body.hpp) with explicit vectors and
// compiled for several instruction levels; the table of the best level that this CPU has is chosen
// once. Every kernel works row by row in a fixed order of additions: a row's result does not depend
// on its neighbours. Plain pointers, contiguous row-major data, no allocation, no threads, no
// LibTorch.
#pragma once

#include <cstdint>

namespace quern::policy::kernels {

/// Sizes of grouped-query attention; a row of qkv is [kv_heads * group q heads | kv_heads k heads |
/// kv_heads v heads] of `dim` each.
struct head_shape {
  std::int64_t kv_heads = 0;
  std::int64_t group = 0;  ///< query heads that share a key/value head
  std::int64_t dim = 0;    ///< even
};

/// Keys are cached in blocks of this many positions, [capacity / key_block, dim, key_block], so
/// that scores of neighbouring positions are one vector; values are [capacity, dim].
inline constexpr std::int64_t key_block = 16;

template <class T>
struct kernel_table {
  const char* isa;

  /// y = x * rstd * w with rstd = 1 / sqrt(mean(x^2) + eps); `rstd` ([rows]) may be null.
  void (*rms_norm)(const T* x, const T* w, T eps, std::int64_t rows, std::int64_t width, T* y,
                   T* rstd);
  /// Adds into dx and dw.
  void (*rms_norm_backward)(const T* dy, const T* x, const T* w, const T* rstd, std::int64_t rows,
                            std::int64_t width, T* dx, T* dw);

  /// q [kv_heads, rows, group, dim], k and v [kv_heads, rows, dim] from qkv rows: norm over dim
  /// (where q_norm and k_norm are given; their rstd, [rows, (group + 1) kv_heads], q heads first,
  /// may be null), then rotation of (i, i + dim / 2) by cos/sin[position, i].
  void (*split_heads)(head_shape shape, const T* qkv, const T* q_norm, const T* k_norm, T eps,
                      const T* cos, const T* sin, const std::int64_t* positions, std::int64_t rows,
                      T* q, T* k, T* v, T* rstd);
  /// Writes dqkv; adds into dq_norm and dk_norm where there are norms.
  void (*split_heads_backward)(head_shape shape, const T* dq, const T* dk, const T* dv,
                               const T* qkv, const T* q_norm, const T* k_norm, const T* rstd,
                               const T* cos, const T* sin, const std::int64_t* positions,
                               std::int64_t rows, T* dqkv, T* dq_norm, T* dk_norm);

  /// act = silu(gate) * up; a row of gate_up is [gate | up] of `width` each.
  void (*swiglu)(const T* gate_up, std::int64_t rows, std::int64_t width, T* act);
  /// Writes d_gate_up, which may be gate_up itself.
  void (*swiglu_backward)(const T* d_act, const T* gate_up, std::int64_t rows, std::int64_t width,
                          T* d_gate_up);

  /// In place: scores -> softmax(scale * scores) over the first `first + row / group` columns, 0
  /// beyond; lse per row.
  void (*softmax_tile)(T* s, std::int64_t rows, std::int64_t columns, std::int64_t group,
                       std::int64_t first, T scale, T* lse);
  /// s: scores -> probabilities from lse; dp: d loss / d probability -> d loss / d score = p (dp -
  /// delta) scale.
  void (*softmax_tile_backward)(T* s, T* dp, std::int64_t rows, std::int64_t columns,
                                std::int64_t group, std::int64_t first, T scale, const T* lse,
                                const T* delta);

  /// Log-softmax of z * inverse_temperature[row] over the first `valid` columns: that of the
  /// target, the row's entropy, and its lse.
  void (*log_softmax_rows)(const T* z, const std::int64_t* targets, const T* inverse_temperature,
                           std::int64_t rows, std::int64_t columns, std::int64_t valid, T* log_prob,
                           T* entropy, T* lse);
  /// In place: z -> gradient[row] * inverse_temperature[row] * (onehot(target) - softmax); 0 beyond
  /// `valid`.
  void (*log_softmax_gradient)(T* z, const std::int64_t* targets, const T* inverse_temperature,
                               const T* lse, const T* gradient, std::int64_t rows,
                               std::int64_t columns, std::int64_t valid);

  /// Copies k and v ([kv_heads, rows, dim]) of one row into one slot's cache at `position`; caches
  /// are [kv_heads, ...].
  void (*store_row)(head_shape shape, const T* k, const T* v, std::int64_t rows, std::int64_t row,
                    std::int64_t position, std::int64_t capacity, T* key_cache, T* value_cache);
  /// Attention of one row's queries of one key/value head over `length` positions, the first
  /// `shared` of them (a multiple of key_block) from another slot's cache; out [kv_heads * group *
  /// dim]. Caches are those of this head. `scratch` has room for 4 * (capacity + key_block).
  /// Positions are added in ascending order.
  void (*cached_attention)(head_shape shape, std::int64_t head, const T* q, std::int64_t rows,
                           std::int64_t row, std::int64_t shared, std::int64_t length,
                           std::int64_t capacity, const T* shared_keys, const T* shared_values,
                           const T* keys, const T* values, T* scratch, T* out);
};

/// The table of the best level on this machine. Thread-safe.
template <class T>
const kernel_table<T>& host_kernels();

template <>
const kernel_table<float>& host_kernels<float>();
template <>
const kernel_table<double>& host_kernels<double>();

/// Every level that this machine runs, the best last; returns how many. For tests.
int usable_kernels(const kernel_table<float>* (&tables)[3]);

}  // namespace quern::policy::kernels
