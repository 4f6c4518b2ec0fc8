// Hashes of weights.
#include <algorithm>

#include "policy/device/common.cuh"
#include "policy/device/functions.hpp"

namespace quern::policy::device {
namespace {

constexpr int hash_threads = 256;
constexpr int64_t most_hash_blocks = 132 * 8;

__device__ uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31U);
}

__device__ uint64_t warp_total(uint64_t x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2)
    x += __shfl_xor_sync(all_lanes, x, step);
  return x;
}

template <class T>
__global__ void __launch_bounds__(hash_threads)
    hash_kernel(quern_hashed_part what, const T* x, unsigned long long* sums) {
  const int64_t count = what.rows * what.columns;
  const bool whole = what.stride == static_cast<uint64_t>(what.columns);
  uint64_t low = 0, high = 0;
  for (int64_t i = blockIdx.x * static_cast<int64_t>(hash_threads) + threadIdx.x; i < count;
       i += static_cast<int64_t>(gridDim.x) * hash_threads) {
    uint64_t index = what.first + static_cast<uint64_t>(i);
    if (!whole) {
      const int64_t row = i / what.columns;
      index = what.first + static_cast<uint64_t>(row) * what.stride +
              static_cast<uint64_t>(i - row * what.columns);
    }
    const uint64_t bits = __float_as_uint(to_float(x[i]));
    const uint64_t k = mix(what.seed_low + (index + 1) * 0x9e3779b97f4a7c15ULL);
    low += mix(k ^ bits);
    high += mix((k + what.seed_high) ^ (bits * 0xd6e8feb86659fd93ULL + 1));
  }
  low = warp_total(low);
  high = warp_total(high);
  if (threadIdx.x % 32 != 0) return;
  atomicAdd(sums, static_cast<unsigned long long>(low));
  atomicAdd(sums + 1, static_cast<unsigned long long>(high));
}

template <class T>
int32_t launch(const quern_hashed_part& what, const void* x, uint64_t* sums, void* stream) {
  const int64_t blocks = (what.rows * what.columns + hash_threads - 1) / hash_threads;
  if (blocks == 0) return 0;
  hash_kernel<<<static_cast<unsigned>(std::min(blocks, most_hash_blocks)), hash_threads, 0,
                static_cast<cudaStream_t>(stream)>>>(what, static_cast<const T*>(x),
                                                     reinterpret_cast<unsigned long long*>(sums));
  return static_cast<int32_t>(cudaGetLastError());
}

}  // namespace

int32_t hash_elements(int32_t type, quern_hashed_part what, const void* x, uint64_t* sums,
                      void* stream) {
  if (what.rows < 0 || what.columns < 0) return cudaErrorInvalidValue;
  if (type == quern_f32) return launch<float>(what, x, sums, stream);
  if (type == quern_bf16) return launch<bf16>(what, x, sums, stream);
  return cudaErrorInvalidValue;
}

}  // namespace quern::policy::device
