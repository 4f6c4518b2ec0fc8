// Explicit vectors for the host kernels. Included with QUERN_ISA and QUERN_VECTOR_BYTES defined;
// everything lives in a namespace of its own per instruction level, and no standard header with
// inline functions is used, so that the linker cannot mix levels.
#pragma once

#include <cstdint>

namespace quern::policy::kernels::QUERN_ISA {

template <class T>
struct vector_of;
template <>
struct vector_of<float> {
  typedef float type __attribute__((vector_size(QUERN_VECTOR_BYTES)));
  typedef std::int32_t mask __attribute__((vector_size(QUERN_VECTOR_BYTES)));
};
template <>
struct vector_of<double> {
  typedef double type __attribute__((vector_size(QUERN_VECTOR_BYTES)));
  typedef std::int64_t mask __attribute__((vector_size(QUERN_VECTOR_BYTES)));
};
template <class T>
using vec = typename vector_of<T>::type;
template <class T>
inline constexpr std::int64_t lanes = QUERN_VECTOR_BYTES / static_cast<std::int64_t>(sizeof(T));

template <class T>
inline vec<T> load(const T* p) {
  vec<T> v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
template <class T>
inline void store(T* p, vec<T> v) {
  __builtin_memcpy(p, &v, sizeof v);
}
template <class T>
inline vec<T> splat(T x) {
  return x - vec<T>{};
}
template <class T>
inline vec<T> larger(vec<T> a, vec<T> b) {
  return a > b ? a : b;
}

/// Sum of the lanes, halves first: a fixed order.
template <class T>
inline T total(vec<T> v) {
  T part[lanes<T>];
  store<T>(part, v);
  for (std::int64_t width = lanes<T> / 2; width > 0; width /= 2)
    for (std::int64_t i = 0; i < width; ++i)
      part[i] += part[i + width];
  return part[0];
}
template <class T>
inline T maximum(vec<T> v) {
  T best = v[0];
  for (std::int64_t i = 1; i < lanes<T>; ++i)
    best = v[i] > best ? v[i] : best;
  return best;
}

inline double scalar_exp(double x) {
  return __builtin_exp(x);
}
inline float scalar_exp(float x) {
  return __builtin_expf(x);
}
inline double scalar_log(double x) {
  return __builtin_log(x);
}
inline float scalar_log(float x) {
  return __builtin_logf(x);
}
inline double scalar_sqrt(double x) {
  return __builtin_sqrt(x);
}
inline float scalar_sqrt(float x) {
  return __builtin_sqrtf(x);
}

/// e^x, about 2 units in the last place: x = n ln 2 + r, a polynomial in r (Cephes), n added to the
/// exponent. Below -87.3 it is 0, above 88 it stays at e^88.
inline vec<float> exponential(vec<float> x) {
  using mask = vector_of<float>::mask;
  const vec<float> low = splat(-87.3F), high = splat(88.0F),
                   rounding = splat(12582912.0F);  // 1.5 * 2^23
  const mask vanishes = x < low;
  x = x < low ? low : x;
  x = x > high ? high : x;
  const vec<float> shifted = x * splat(1.44269504088896341F) + rounding;
  const vec<float> n = shifted - rounding;
  vec<float> r = x - n * splat(0.693359375F);
  r = r - n * splat(-2.12194440e-4F);
  vec<float> p = splat(1.9875691500e-4F);
  p = p * r + splat(1.3981999507e-3F);
  p = p * r + splat(8.3334519073e-3F);
  p = p * r + splat(4.1665795894e-2F);
  p = p * r + splat(1.6666665459e-1F);
  p = p * r + splat(5.0000001201e-1F);
  p = p * (r * r) + r + splat(1.0F);
  const mask exponent = ((mask)shifted - (mask)rounding) << 23;
  const vec<float> result = (vec<float>)((mask)p + exponent);
  return vanishes ? splat(0.0F) : result;
}
inline vec<double> exponential(vec<double> x) {
  for (std::int64_t i = 0; i < lanes<double>; ++i)
    x[i] = scalar_exp(x[i]);
  return x;
}

/// Applies f(index, is_vector) over a row: vectors first, then the rest one by one.
template <class T, class Vector, class Scalar>
inline void over(std::int64_t n, Vector&& vector, Scalar&& scalar) {
  std::int64_t i = 0;
  for (; i + lanes<T> <= n; i += lanes<T>)
    vector(i);
  for (; i < n; ++i)
    scalar(i);
}

}  // namespace quern::policy::kernels::QUERN_ISA
