// What the kernels share: elements, sums over warps and blocks in a fixed order, launch checks.
#pragma once

#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "policy/device/kernels.h"

namespace quern::policy::device {

using bf16 = __nv_bfloat16;

inline constexpr unsigned all_lanes = 0xffffffffU;

__device__ inline float to_float(float x) {
  return x;
}
__device__ inline float to_float(bf16 x) {
  return __bfloat162float(x);
}
template <class T>
__device__ inline T from_float(float x);
template <>
__device__ inline float from_float<float>(float x) {
  return x;
}
template <>
__device__ inline bf16 from_float<bf16>(float x) {
  return __float2bfloat16_rn(x);
}

/// 16 bytes of elements.
template <class T>
struct alignas(16) pack {
  static constexpr int size = 16 / sizeof(T);
  T at[size];
};

__device__ inline float warp_sum(float x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2)
    x += __shfl_xor_sync(all_lanes, x, step);
  return x;
}

__device__ inline float warp_max(float x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2)
    x = fmaxf(x, __shfl_xor_sync(all_lanes, x, step));
  return x;
}

/// The same value in every thread. `shared` has room for 32 floats and may be reused at once.
__device__ inline float block_sum(float x, float* shared) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int warps = static_cast<int>((blockDim.x + 31) / 32);
  x = warp_sum(x);
  if (lane == 0) shared[warp] = x;
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < warps; ++i)
    sum += shared[i];
  __syncthreads();
  return sum;
}

__device__ inline float block_max(float x, float* shared) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int warps = static_cast<int>((blockDim.x + 31) / 32);
  x = warp_max(x);
  if (lane == 0) shared[warp] = x;
  __syncthreads();
  float top = shared[0];
  for (int i = 1; i < warps; ++i)
    top = fmaxf(top, shared[i]);
  __syncthreads();
  return top;
}

inline cudaStream_t stream_of(void* stream) {
  return static_cast<cudaStream_t>(stream);
}
inline int32_t launched() {
  return static_cast<int32_t>(cudaGetLastError());
}
inline constexpr int32_t invalid = static_cast<int32_t>(cudaErrorInvalidValue);

/// Calls f(T{}) for the element that `type` names.
template <class F>
int32_t with_element(int32_t type, F&& f) {
  if (type == quern_f32) return f(float{});
  if (type == quern_bf16) return f(bf16{});
  return invalid;
}

}  // namespace quern::policy::device
