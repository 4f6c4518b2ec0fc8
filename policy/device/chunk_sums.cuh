// Sums over a row of logits in chunks of quern_chunk columns, in the one order that sampling and
// log-probs of given tokens share: so the two agree to the last bit on equal logits.
#pragma once

#include "policy/device/common.cuh"

namespace quern::policy::device {

inline constexpr int chunk_threads = 256;
inline constexpr int chunk_values = quern_chunk / chunk_threads;  // of a thread
inline constexpr int most_chunks = 128;

__host__ __device__ inline int chunks_of(int64_t valid) {
  return static_cast<int>((valid + quern_chunk - 1) / quern_chunk);
}

/// Of one chunk, relative to its own highest logit: sum of e^((z - top) / T), of e^(z - top), and
/// of e^((z - top) / T) (z - top) / T.
struct chunk_sums {
  float top, tempered, plain, weighted;
};

/// Thread t has columns 4 (t + 256 i) + 0..3 of the chunk. Beyond `count`: minus infinity.
__device__ inline void load_chunk(const float* z, int count, bool vector,
                                  float (&value)[chunk_values]) {
#pragma unroll
  for (int i = 0; i < chunk_values / 4; ++i) {
    const int at = 4 * (static_cast<int>(threadIdx.x) + chunk_threads * i);
    if (vector && at + 4 <= count) {
      const float4 four = *reinterpret_cast<const float4*>(z + at);
      value[4 * i] = four.x;
      value[4 * i + 1] = four.y;
      value[4 * i + 2] = four.z;
      value[4 * i + 3] = four.w;
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j)
        value[4 * i + j] = at + j < count ? z[at + j] : -INFINITY;
    }
  }
}

/// The same in every thread; all threads of the block call it. A chunk of nothing but minus
/// infinity has sums of 0.
__device__ inline chunk_sums sum_chunk(const float (&value)[chunk_values],
                                       float inverse_temperature, float* shared) {
  chunk_sums s{-INFINITY, 0, 0, 0};
#pragma unroll
  for (int i = 0; i < chunk_values; ++i)
    s.top = fmaxf(s.top, value[i]);
  s.top = block_max(s.top, shared);
  if (s.top == -INFINITY) return s;
#pragma unroll
  for (int i = 0; i < chunk_values; ++i) {
    const float below = value[i] - s.top, scaled = below * inverse_temperature;
    const float p = __expf(scaled);
    s.tempered += p;
    s.plain += __expf(below);
    if (p > 0) s.weighted += p * scaled;
  }
  s.tempered = block_sum(s.tempered, shared);
  s.plain = block_sum(s.plain, shared);
  s.weighted = block_sum(s.weighted, shared);
  return s;
}

/// A row's sums, joined over its chunks by one thread in ascending order, in double.
struct row_sums {
  float top = -INFINITY;
  double tempered = 0, plain = 0, weighted = 0;
};

/// Factor that takes a chunk's tempered sum to the row's top.
__device__ inline double chunk_factor(float chunk_top, float row_top, float inverse_temperature) {
  return chunk_top == -INFINITY
             ? 0.0
             : exp((static_cast<double>(chunk_top) - row_top) * inverse_temperature);
}

/// chunk(i) gives sums, factor(i) and plain_factor(i) what was made of them by chunk_factor.
__device__ inline void join_chunk(row_sums& row, const chunk_sums& chunk, double factor,
                                  double plain_factor, float inverse_temperature) {
  if (chunk.top == -INFINITY) return;
  const double shift = (static_cast<double>(chunk.top) - row.top) * inverse_temperature;
  row.tempered += chunk.tempered * factor;
  row.plain += chunk.plain * plain_factor;
  row.weighted += (chunk.weighted + shift * chunk.tempered) * factor;
}

}  // namespace quern::policy::device
