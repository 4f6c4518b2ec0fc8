// What the files of the scalar table share: elements, heads, and the functions of
// host_training.cpp.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "policy/device/kernels.h"

namespace quern::policy::host {

/// bfloat16 by its bits.
struct host_bf16 {
  std::uint16_t bits = 0;
};

inline float value_of(float x) {
  return x;
}
inline float value_of(host_bf16 x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}
template <class T>
T rounded(double x) {
  if constexpr (std::is_same_v<T, float>) {
    return static_cast<float>(x);
  } else {
    const auto f = static_cast<float>(x);
    if (std::isnan(f)) return {0x7fff};
    const auto word = std::bit_cast<std::uint32_t>(f);
    return {static_cast<std::uint16_t>((word + 0x7fffU + ((word >> 16) & 1U)) >> 16)};
  }
}

constexpr std::int32_t bad_call = 1;

/// Calls f(T{}) for the element that `type` names.
template <class F>
std::int32_t with_host_element(std::int32_t type, F&& f) {
  if (type == quern_f32) return f(float{}), 0;
  if (type == quern_bf16) return f(host_bf16{}), 0;
  return bad_call;
}

template <class T>
const T* as(const void* p) {
  return static_cast<const T*>(p);
}
template <class T>
T* as(void* p) {
  return static_cast<T*>(p);
}

template <class T>
std::vector<double> head_of(const T* x, const T* bias, std::int64_t dim) {
  std::vector<double> v(static_cast<std::size_t>(dim));
  for (std::int64_t i = 0; i < dim; ++i)
    v[static_cast<std::size_t>(i)] =
        value_of(x[i]) + (bias != nullptr ? static_cast<double>(value_of(bias[i])) : 0.0);
  return v;
}

template <class T>
double norm_head(std::vector<double>& v, const T* w, double eps) {
  double squares = 0;
  for (double x : v)
    squares += x * x;
  const double scale = 1 / std::sqrt(squares / static_cast<double>(v.size()) + eps);
  for (std::size_t i = 0; i < v.size(); ++i)
    v[i] *= scale * value_of(w[i]);
  return scale;
}

inline void turn_head(std::vector<double>& v, const quern_head_steps& how, std::int64_t position,
                      double direction) {
  const std::size_t half = v.size() / 2;
  for (std::size_t i = 0; i < half; ++i) {
    const std::size_t at = static_cast<std::size_t>(position) * half + i;
    const double c = how.cos[at], s = how.sin[at] * direction, low = v[i], high = v[i + half];
    v[i] = low * c - high * s;
    v[i + half] = high * c + low * s;
  }
}

template <class T>
void put_head(const std::vector<double>& v, T* to) {
  for (std::size_t i = 0; i < v.size(); ++i)
    to[i] = rounded<T>(v[i]);
}

/// Which part of a row of qkv a head is, and its norm.
template <class T>
struct head_place {
  enum { query, key, value } kind = query;
  std::int64_t index = 0;
  const T* norm = nullptr;
  head_place(const quern_heads& s, const quern_head_steps& how, std::int64_t head) {
    const std::int64_t queries = std::int64_t{s.kv_heads} * s.group;
    if (head < queries) {
      index = head;
      norm = as<T>(how.q_norm);
    } else if (head < queries + s.kv_heads) {
      kind = key;
      index = head - queries;
      norm = as<T>(how.k_norm);
    } else {
      kind = value;
      index = head - queries - s.kv_heads;
    }
  }
  /// Offset in q [kv_heads, rows, group, dim] or in k or v [kv_heads, rows, dim].
  std::int64_t offset(const quern_heads& s, std::int64_t rows, std::int64_t row) const {
    if (kind != query) return (index * rows + row) * s.dim;
    return ((index / s.group * rows + row) * s.group + index % s.group) * s.dim;
  }
};

std::int32_t add_rms_norm(std::int32_t type, std::int32_t rows, std::int32_t width, float eps,
                          const void* delta, void* xs, const void* w, void* y, float* rstd, void*);
std::int32_t rms_norm_backward(std::int32_t type, std::int32_t rows, std::int32_t width,
                               const void* dys, const void* xs, const void* ws, const float* rstd,
                               void* dxs, float* dw, float*, void*);
std::int32_t swiglu(std::int32_t type, std::int64_t rows, std::int64_t width, const void* gate_up,
                    void* act, void*);
std::int32_t swiglu_backward(std::int32_t type, std::int64_t rows, std::int64_t width,
                             const void* d_act, const void* gate_up, void* d_gate_up, void*);
std::int32_t split_heads(std::int32_t type, quern_heads s, quern_head_steps how, std::int32_t rows,
                         const void* qkv, const std::int64_t* positions, void* q, void* k, void* v,
                         float* rstd, void*);
std::int32_t split_heads_backward(std::int32_t type, quern_heads s, quern_head_steps how,
                                  std::int32_t rows, const void* dq, const void* dk, const void* dv,
                                  const void* qkv, const float* rstd, const std::int64_t* positions,
                                  void* dqkv, float* dq_norm, float* dk_norm, float*, void*);
std::int32_t softmax_tile(std::int64_t rows, std::int64_t columns, std::int64_t group,
                          std::int64_t first, float scale, float* s, float* lse, void*);
std::int32_t softmax_tile_backward(std::int64_t rows, std::int64_t columns, std::int64_t group,
                                   std::int64_t first, float scale, float* s, float* dp,
                                   const float* lse, const float* delta, void*);
std::int32_t log_softmax_rows(std::int64_t rows, std::int64_t columns, std::int64_t valid,
                              const float* z, const std::int64_t* targets,
                              const float* inverse_temperature, float* log_prob, float* entropy,
                              float* lse, void*);
std::int32_t log_softmax_gradient(std::int32_t type, std::int64_t rows, std::int64_t columns,
                                  std::int64_t valid, const float* z, const std::int64_t* targets,
                                  const float* inverse_temperature, const float* lse,
                                  const float* gradient, void* out, void*);
std::int32_t adamw(quern_adamw how, std::int64_t count, float* master, std::int32_t gradient_type,
                   const void* gradient, float* first, float* second, std::int32_t weight_type,
                   void* weights, void*);

}  // namespace quern::policy::host
