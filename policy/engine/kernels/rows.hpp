// Host kernels on rows of activations: norm, rotary and head layout, SwiGLU. Contracts are in
// table.hpp.
#pragma once

namespace quern::policy::kernels::QUERN_ISA {

/// sum a[i] b[i], four chains of vectors, then the rest.
template <class T>
inline T dot(const T* a, const T* b, std::int64_t n) {
  vec<T> s0{}, s1{}, s2{}, s3{};
  std::int64_t i = 0;
  for (; i + 4 * lanes<T> <= n; i += 4 * lanes<T>) {
    s0 += load(a + i) * load(b + i);
    s1 += load(a + i + lanes<T>) * load(b + i + lanes<T>);
    s2 += load(a + i + 2 * lanes<T>) * load(b + i + 2 * lanes<T>);
    s3 += load(a + i + 3 * lanes<T>) * load(b + i + 3 * lanes<T>);
  }
  for (; i + lanes<T> <= n; i += lanes<T>)
    s0 += load(a + i) * load(b + i);
  T sum = total<T>((s0 + s1) + (s2 + s3));
  for (; i < n; ++i)
    sum += a[i] * b[i];
  return sum;
}

template <class T>
inline T norm_row(const T* x, const T* w, T eps, std::int64_t width, T* y) {
  const T rstd = T(1) / scalar_sqrt(dot(x, x, width) / static_cast<T>(width) + eps);
  over<T>(
      width, [&](std::int64_t i) { store<T>(y + i, load(x + i) * splat(rstd) * load(w + i)); },
      [&](std::int64_t i) { y[i] = x[i] * rstd * w[i]; });
  return rstd;
}

/// With g = dy w and h = x rstd: dx (+)= rstd (g - h mean(g h)), dw += dy h.
template <class T, bool add>
inline void norm_row_backward(const T* dy, const T* x, const T* w, T rstd, std::int64_t width,
                              T* dx, T* dw) {
  vec<T> partial{};
  T rest = 0;
  over<T>(
      width, [&](std::int64_t i) { partial += load(dy + i) * load(w + i) * load(x + i); },
      [&](std::int64_t i) { rest += dy[i] * w[i] * x[i]; });
  const T mean = (total<T>(partial) + rest) * rstd / static_cast<T>(width);
  over<T>(
      width,
      [&](std::int64_t i) {
        const vec<T> d = load(dy + i), h = load(x + i) * splat(rstd);
        vec<T> g = splat(rstd) * (d * load(w + i) - h * splat(mean));
        if constexpr (add) g += load(dx + i);
        store<T>(dw + i, load(dw + i) + d * h);
        store<T>(dx + i, g);
      },
      [&](std::int64_t i) {
        const T d = dy[i], h = x[i] * rstd;
        T g = rstd * (d * w[i] - h * mean);
        if constexpr (add) g += dx[i];
        dw[i] += d * h;
        dx[i] = g;
      });
}

template <class T>
void rms_norm(const T* x, const T* w, T eps, std::int64_t rows, std::int64_t width, T* y, T* rstd) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const T scale = norm_row(x + r * width, w, eps, width, y + r * width);
    if (rstd) rstd[r] = scale;
  }
}

template <class T>
void rms_norm_backward(const T* dy, const T* x, const T* w, const T* rstd, std::int64_t rows,
                       std::int64_t width, T* dx, T* dw) {
  for (std::int64_t r = 0; r < rows; ++r)
    norm_row_backward<T, true>(dy + r * width, x + r * width, w, rstd[r], width, dx + r * width,
                               dw);
}

/// y = rotation of x by the angles whose cosines and sines are given; sign -1 turns back. y may be
/// x.
template <class T>
inline void rotate(const T* x, const T* cos, const T* sin, T sign, std::int64_t half, T* y) {
  over<T>(
      half,
      [&](std::int64_t i) {
        const vec<T> a = load(x + i), b = load(x + half + i), c = load(cos + i),
                     s = load(sin + i) * splat(sign);
        store<T>(y + i, a * c - b * s);
        store<T>(y + half + i, b * c + a * s);
      },
      [&](std::int64_t i) {
        const T a = x[i], b = x[half + i], c = cos[i], s = sin[i] * sign;
        y[i] = a * c - b * s;
        y[half + i] = b * c + a * s;
      });
}

template <class T>
void split_heads(head_shape shape, const T* qkv, const T* q_norm, const T* k_norm, T eps,
                 const T* cos, const T* sin, const std::int64_t* positions, std::int64_t rows, T* q,
                 T* k, T* v, T* rstd) {
  const std::int64_t d = shape.dim, half = d / 2, query_heads = shape.kv_heads * shape.group;
  const std::int64_t width = (query_heads + 2 * shape.kv_heads) * d;
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* c = cos + positions[r] * half;
    const T* s = sin + positions[r] * half;
    const auto place = [&](const T* source, const T* norm, T* target, std::int64_t head) {
      if (norm) {
        const T scale = norm_row(source, norm, eps, d, target);
        if (rstd) rstd[r * (query_heads + shape.kv_heads) + head] = scale;
        source = target;
      }
      rotate(source, c, s, T(1), half, target);
    };
    const T* row = qkv + r * width;
    for (std::int64_t h = 0; h < query_heads; ++h, row += d)
      place(row, q_norm, q + ((h / shape.group * rows + r) * shape.group + h % shape.group) * d, h);
    for (std::int64_t h = 0; h < shape.kv_heads; ++h, row += d)
      place(row, k_norm, k + (h * rows + r) * d, query_heads + h);
    for (std::int64_t h = 0; h < shape.kv_heads; ++h, row += d)
      __builtin_memcpy(v + (h * rows + r) * d, row, static_cast<std::size_t>(d) * sizeof(T));
  }
}

template <class T>
void split_heads_backward(head_shape shape, const T* dq, const T* dk, const T* dv, const T* qkv,
                          const T* q_norm, const T* k_norm, const T* rstd, const T* cos,
                          const T* sin, const std::int64_t* positions, std::int64_t rows, T* dqkv,
                          T* dq_norm, T* dk_norm) {
  const std::int64_t d = shape.dim, half = d / 2, query_heads = shape.kv_heads * shape.group;
  const std::int64_t width = (query_heads + 2 * shape.kv_heads) * d;
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* c = cos + positions[r] * half;
    const T* s = sin + positions[r] * half;
    const T* x = qkv + r * width;
    T* dx = dqkv + r * width;
    const auto back = [&](const T* gradient, const T* norm, T* d_norm, std::int64_t head) {
      rotate(gradient, c, s, T(-1), half, dx);
      if (norm)
        norm_row_backward<T, false>(dx, x, norm, rstd[r * (query_heads + shape.kv_heads) + head], d,
                                    dx, d_norm);
      x += d;
      dx += d;
    };
    for (std::int64_t h = 0; h < query_heads; ++h)
      back(dq + ((h / shape.group * rows + r) * shape.group + h % shape.group) * d, q_norm, dq_norm,
           h);
    for (std::int64_t h = 0; h < shape.kv_heads; ++h)
      back(dk + (h * rows + r) * d, k_norm, dk_norm, query_heads + h);
    for (std::int64_t h = 0; h < shape.kv_heads; ++h, dx += d)
      __builtin_memcpy(dx, dv + (h * rows + r) * d, static_cast<std::size_t>(d) * sizeof(T));
  }
}

template <class T>
void swiglu(const T* gate_up, std::int64_t rows, std::int64_t width, T* act) {
  for (std::int64_t r = 0; r < rows; ++r, gate_up += 2 * width, act += width)
    over<T>(
        width,
        [&](std::int64_t i) {
          const vec<T> g = load(gate_up + i);
          store<T>(act + i, g / (splat(T(1)) + exponential(-g)) * load(gate_up + width + i));
        },
        [&](std::int64_t i) {
          act[i] = gate_up[i] / (T(1) + scalar_exp(-gate_up[i])) * gate_up[width + i];
        });
}

/// With s = sigmoid(g): d gate = d up s (1 + g (1 - s)), d up = d g s.
template <class T>
void swiglu_backward(const T* d_act, const T* gate_up, std::int64_t rows, std::int64_t width,
                     T* d_gate_up) {
  for (std::int64_t r = 0; r < rows;
       ++r, gate_up += 2 * width, d_act += width, d_gate_up += 2 * width)
    over<T>(
        width,
        [&](std::int64_t i) {
          const vec<T> one = splat(T(1)), g = load(gate_up + i), u = load(gate_up + width + i),
                       d = load(d_act + i);
          const vec<T> s = one / (one + exponential(-g));
          store<T>(d_gate_up + i, d * u * s * (one + g * (one - s)));
          store<T>(d_gate_up + width + i, d * g * s);
        },
        [&](std::int64_t i) {
          const T g = gate_up[i], u = gate_up[width + i], s = T(1) / (T(1) + scalar_exp(-g));
          d_gate_up[i] = d_act[i] * u * s * (T(1) + g * (T(1) - s));
          d_gate_up[width + i] = d_act[i] * g * s;
        });
}

}  // namespace quern::policy::kernels::QUERN_ISA
