// Log-softmax of rows of logits with its gradient, and softmax over tiles of attention scores.
#include <algorithm>

#include "policy/device/chunk_sums.cuh"
#include "policy/device/functions.hpp"

namespace quern::policy::device {
namespace {

__global__ void __launch_bounds__(chunk_threads)
    log_softmax_rows_kernel(int64_t columns, int64_t valid, bool vector, const float* z,
                            const int64_t* targets, const float* inverse_temperature,
                            float* log_prob, float* entropy, float* lse) {
  __shared__ float shared[32];
  __shared__ chunk_sums chunks[most_chunks];
  __shared__ double factors[most_chunks], plain_factors[most_chunks];
  const int64_t row = blockIdx.x;
  const float* logits = z + row * columns;
  const float inverse = inverse_temperature[row];
  const int count = chunks_of(valid);
  float top = -INFINITY;
  for (int c = 0; c < count; ++c) {
    const int64_t from = static_cast<int64_t>(c) * quern_chunk;
    float value[chunk_values];
    load_chunk(logits + from,
               static_cast<int>(min(static_cast<int64_t>(quern_chunk), valid - from)), vector,
               value);
    const chunk_sums sums = sum_chunk(value, inverse, shared);
    top = fmaxf(top, sums.top);
    if (threadIdx.x == 0) chunks[c] = sums;
  }
  __syncthreads();
  if (static_cast<int>(threadIdx.x) < count) {
    factors[threadIdx.x] = chunk_factor(chunks[threadIdx.x].top, top, inverse);
    plain_factors[threadIdx.x] = chunk_factor(chunks[threadIdx.x].top, top, 1.0F);
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  row_sums sums;
  sums.top = top;
  for (int c = 0; c < count; ++c)
    join_chunk(sums, chunks[c], factors[c], plain_factors[c], inverse);
  const double log_total = log(sums.tempered);
  const double below = (static_cast<double>(logits[targets[row]]) - top) * inverse;
  log_prob[row] = static_cast<float>(below - log_total);
  entropy[row] = static_cast<float>(log_total - sums.weighted / sums.tempered);
  lse[row] = static_cast<float>(static_cast<double>(top) * inverse + log_total);
}

template <class T>
__global__ void __launch_bounds__(chunk_threads)
    log_softmax_gradient_kernel(int64_t columns, int64_t valid, const float* z,
                                const int64_t* targets, const float* inverse_temperature,
                                const float* lse, const float* gradient, T* out) {
  const int64_t row = blockIdx.x, target = targets[row];
  const float inverse = inverse_temperature[row], factor = gradient[row] * inverse,
              log_total = lse[row];
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) {
    const int64_t at = row * columns + i;
    const float p = i < valid ? __expf(z[at] * inverse - log_total) : 0.0F;
    out[at] = from_float<T>(factor * ((i == target ? 1.0F : 0.0F) - p));
  }
}

__global__ void __launch_bounds__(chunk_threads)
    softmax_tile_kernel(int64_t columns, int64_t group, int64_t first, float scale, float* s,
                        float* lse) {
  __shared__ float shared[32];
  const int64_t row = blockIdx.x, seen = min(columns, first + row / group);
  float* values = s + row * columns;
  float top = -INFINITY;
  for (int64_t i = threadIdx.x; i < seen; i += blockDim.x)
    top = fmaxf(top, values[i] * scale);
  top = block_max(top, shared);
  float sum = 0;
  for (int64_t i = threadIdx.x; i < seen; i += blockDim.x)
    sum += __expf(values[i] * scale - top);
  sum = block_sum(sum, shared);
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x)
    values[i] = i < seen ? __expf(values[i] * scale - top) / sum : 0.0F;
  if (threadIdx.x == 0) lse[row] = top + logf(sum);
}

__global__ void __launch_bounds__(chunk_threads)
    softmax_tile_backward_kernel(int64_t columns, int64_t group, int64_t first, float scale,
                                 float* s, float* dp, const float* lse, const float* delta) {
  const int64_t row = blockIdx.x, seen = min(columns, first + row / group);
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) {
    const int64_t at = row * columns + i;
    const float p = i < seen ? __expf(s[at] * scale - lse[row]) : 0.0F;
    s[at] = p;
    dp[at] = i < seen ? p * (dp[at] - delta[row]) * scale : 0.0F;
  }
}

bool bad_tile(int64_t rows, int64_t columns, int64_t group, int64_t first) {
  return rows < 0 || rows > 0x7fffffff || columns < 1 || group < 1 || first < 1;
}

}  // namespace

int32_t log_softmax_rows(int64_t rows, int64_t columns, int64_t valid, const float* z,
                         const int64_t* targets, const float* inverse_temperature, float* log_prob,
                         float* entropy, float* lse, void* stream) {
  if (rows < 0 || rows > 0x7fffffff || valid < 1 || valid > columns ||
      chunks_of(valid) > most_chunks)
    return invalid;
  if (rows == 0) return 0;
  const bool vector = columns % 4 == 0 && reinterpret_cast<uintptr_t>(z) % 16 == 0;
  log_softmax_rows_kernel<<<static_cast<unsigned>(rows), chunk_threads, 0, stream_of(stream)>>>(
      columns, valid, vector, z, targets, inverse_temperature, log_prob, entropy, lse);
  return launched();
}

int32_t log_softmax_gradient(int32_t type, int64_t rows, int64_t columns, int64_t valid,
                             const float* z, const int64_t* targets,
                             const float* inverse_temperature, const float* lse,
                             const float* gradient, void* out, void* stream) {
  if (rows < 0 || rows > 0x7fffffff || valid < 1 || valid > columns) return invalid;
  if (rows == 0) return 0;
  return with_element(type, [&](auto element) {
    using T = decltype(element);
    log_softmax_gradient_kernel<T>
        <<<static_cast<unsigned>(rows), chunk_threads, 0, stream_of(stream)>>>(
            columns, valid, z, targets, inverse_temperature, lse, gradient, static_cast<T*>(out));
    return launched();
  });
}

int32_t softmax_tile(int64_t rows, int64_t columns, int64_t group, int64_t first, float scale,
                     float* s, float* lse, void* stream) {
  if (bad_tile(rows, columns, group, first)) return invalid;
  if (rows == 0) return 0;
  softmax_tile_kernel<<<static_cast<unsigned>(rows), chunk_threads, 0, stream_of(stream)>>>(
      columns, group, first, scale, s, lse);
  return launched();
}

int32_t softmax_tile_backward(int64_t rows, int64_t columns, int64_t group, int64_t first,
                              float scale, float* s, float* dp, const float* lse,
                              const float* delta, void* stream) {
  if (bad_tile(rows, columns, group, first)) return invalid;
  if (rows == 0) return 0;
  softmax_tile_backward_kernel<<<static_cast<unsigned>(rows), chunk_threads, 0,
                                 stream_of(stream)>>>(columns, group, first, scale, s, dp, lse,
                                                      delta);
  return launched();
}

}  // namespace quern::policy::device
