// Elements of content, and how kernels over tensors are launched. Internal to libquern_cuda.so.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "env/device/content.hpp"
#include "env/device/tensors.cuh"

namespace quern::gpu {

constexpr int threads = 256;
/// Enough blocks to fill the device; each strides over the rest.
constexpr int64_t most_blocks = 132 * 16;

inline unsigned blocks_for(int64_t items) {
  const int64_t wanted = (items + threads - 1) / threads;
  return static_cast<unsigned>(wanted < 1 ? 1 : wanted > most_blocks ? most_blocks : wanted);
}

using env::content::block_at;
using env::content::floats_at;
using env::content::integer_at;
using env::content::words;

template <class T>
struct group {
  T v[4];
};

__device__ __forceinline__ uint16_t low_half(uint32_t bits) {
  return static_cast<uint16_t>(bits);
}

template <class T>
__device__ __forceinline__ T rounded(float value, uint32_t extra);
template <>
__device__ __forceinline__ float rounded<float>(float value, uint32_t) {
  return value;
}
template <>
__device__ __forceinline__ double rounded<double>(float value, uint32_t extra) {
  return env::content::widened(value, extra);
}
template <>
__device__ __forceinline__ __nv_bfloat16 rounded<__nv_bfloat16>(float value, uint32_t) {
  return __float2bfloat16_rn(value);
}
template <>
__device__ __forceinline__ __half rounded<__half>(float value, uint32_t) {
  return __float2half_rn(value);
}

template <class T>
__device__ __forceinline__ T subnormal(uint32_t a, uint32_t b);
template <>
__device__ __forceinline__ float subnormal<float>(uint32_t a, uint32_t) {
  return env::content::subnormal_f32(a);
}
template <>
__device__ __forceinline__ double subnormal<double>(uint32_t a, uint32_t b) {
  const uint64_t bits = (static_cast<uint64_t>(a & 0x800FFFFFU) << 32) | b | 1U;
  return __longlong_as_double(static_cast<long long>(bits));
}
template <>
__device__ __forceinline__ __nv_bfloat16 subnormal<__nv_bfloat16>(uint32_t a, uint32_t) {
  return __ushort_as_bfloat16(low_half((a & 0x807FU) | 1U));
}
template <>
__device__ __forceinline__ __half subnormal<__half>(uint32_t a, uint32_t) {
  return __ushort_as_half(low_half((a & 0x83FFU) | 1U));
}

template <class T>
constexpr bool is_integer = false;
template <>
constexpr bool is_integer<int32_t> = true;
template <>
constexpr bool is_integer<int64_t> = true;
template <>
constexpr bool is_integer<uint8_t> = true;

/// Elements 4 * position … + 3.
template <class T>
__device__ __forceinline__ group<T> values_at(const quern_content& c, uint64_t position) {
  group<T> out;
  if constexpr (is_integer<T>) {
    for (int i = 0; i < 4; ++i)
      out.v[i] = static_cast<T>(integer_at(c, position, i));
  } else if (c.kind == QUERN_DENORMAL) {
    const words r = block_at(c.key, c.stream, position);
    const words more = block_at(c.key, c.stream ^ env::content::side_stream, position);
    for (int i = 0; i < 4; ++i)
      out.v[i] = subnormal<T>(r.w[i], more.w[i]);
  } else {
    const auto values = floats_at(c, position);
    words extra{};
    // The same element everywhere in a constant tensor.
    if constexpr (sizeof(T) == 8)
      if (c.kind != QUERN_CONSTANT)
        extra = block_at(c.key, c.stream ^ (env::content::side_stream << 1), position);
    for (int i = 0; i < 4; ++i)
      out.v[i] = rounded<T>(values.v[i], extra.w[i]);
  }
  return out;
}

/// The whole tensor, by all threads of the grid.
template <class T>
__device__ __forceinline__ void fill(T* out, const quern_content& c) {
  const int64_t groups = c.elements / 4;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * threads;
  struct alignas(4 * sizeof(T) > 16 ? 16 : 4 * sizeof(T)) packed {
    group<T> g;
  };
  for (int64_t p = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x; p < groups;
       p += stride)
    reinterpret_cast<packed*>(out)[p].g = values_at<T>(c, static_cast<uint64_t>(p));
  if (blockIdx.x == 0 && threadIdx.x < c.elements - 4 * groups)
    out[4 * groups + threadIdx.x] = values_at<T>(c, static_cast<uint64_t>(groups)).v[threadIdx.x];
}

__device__ __forceinline__ void set(uint32_t* out, int64_t count, uint32_t word) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * threads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x; i < count; i += stride)
    out[i] = word;
}

}  // namespace quern::gpu
