// Attention of single rows over pages for any element and width, without tensor cores.
#include "policy/device/common.cuh"
#include "policy/device/functions.hpp"

namespace quern::policy::device {
namespace {

constexpr int attention_warps = 4;
constexpr int attention_threads = 32 * attention_warps;
constexpr float minus_infinity = -INFINITY;

/// Any element and dim: one block a row and query head, a warp a key, lanes over dims.
constexpr int plain_dims = 8;  // of a lane: dim at most 256

template <class T>
__global__ void __launch_bounds__(attention_threads)
    plain_attention_kernel(quern_heads shape, quern_rows rows, quern_pages pages, const T* q,
                           T* out, float scale) {
  __shared__ float shared_out[attention_warps][32 * plain_dims];
  __shared__ float shared_top[attention_warps], shared_sum[attention_warps];
  const int row = blockIdx.x, query = blockIdx.y, head = query / shape.group, dim = shape.dim;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int slot = rows.slot[row], length = rows.position[row] + 1;
  if (slot < 0 || length < 1) return;
  const int64_t place = (static_cast<int64_t>(row) * shape.kv_heads * shape.group + query) * dim;
  float own_q[plain_dims], own_out[plain_dims];
#pragma unroll
  for (int j = 0; j < plain_dims; ++j) {
    const int d = lane + 32 * j;
    own_q[j] = d < dim ? to_float(q[place + d]) : 0.0F;
    own_out[j] = 0;
  }
  float top = minus_infinity, sum = 0;
  for (int key = warp; key < length; key += attention_warps) {
    const int64_t page =
        pages.tables[static_cast<int64_t>(slot) * pages.table_width + key / pages.page];
    const int64_t at = ((page * shape.kv_heads + head) * pages.page + key % pages.page) * dim;
    float dot = 0;
#pragma unroll
    for (int j = 0; j < plain_dims; ++j) {
      const int d = lane + 32 * j;
      if (d < dim) dot += own_q[j] * to_float(static_cast<const T*>(pages.keys)[at + d]);
    }
    const float score = warp_sum(dot) * scale, new_top = fmaxf(top, score);
    const float shrink = exp2f(top - new_top), p = exp2f(score - new_top);
    sum = sum * shrink + p;
#pragma unroll
    for (int j = 0; j < plain_dims; ++j) {
      const int d = lane + 32 * j;
      const float v = d < dim ? to_float(static_cast<const T*>(pages.values)[at + d]) : 0.0F;
      own_out[j] = own_out[j] * shrink + p * v;
    }
    top = new_top;
  }
#pragma unroll
  for (int j = 0; j < plain_dims; ++j)
    shared_out[warp][lane + 32 * j] = own_out[j];
  if (lane == 0) {
    shared_top[warp] = top;
    shared_sum[warp] = sum;
  }
  __syncthreads();
  float all_top = shared_top[0], all_sum = 0;
  for (int w = 1; w < attention_warps; ++w)
    all_top = fmaxf(all_top, shared_top[w]);
  for (int w = 0; w < attention_warps; ++w)
    all_sum += shared_sum[w] * exp2f(shared_top[w] - all_top);
  for (int d = threadIdx.x; d < dim; d += attention_threads) {
    float value = 0;
    for (int w = 0; w < attention_warps; ++w)
      value += shared_out[w][d] * exp2f(shared_top[w] - all_top);
    out[place + d] = from_float<T>(value / all_sum);
  }
}

}  // namespace

int32_t plain_attention(int32_t type, quern_heads shape, quern_rows rows, quern_pages pages,
                        const void* q, void* out, float scale, void* stream) {
  return with_element(type, [&](auto element) {
    using T = decltype(element);
    const dim3 grid(rows.count, shape.kv_heads * shape.group);
    plain_attention_kernel<T><<<grid, attention_threads, 0, stream_of(stream)>>>(
        shape, rows, pages, static_cast<const T*>(q), static_cast<T*>(out), scale);
    return launched();
  });
}

}  // namespace quern::policy::device
