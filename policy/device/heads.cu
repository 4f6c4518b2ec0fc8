// Head norms, rotary positions and the layout of heads: for training and into pages.
#include <algorithm>

#include "policy/device/common.cuh"
#include "policy/device/functions.hpp"

namespace quern::policy::device {
namespace {

// One warp a head: lane l has the pairs (l, l + half), (l + 32, l + 32 + half), ...
constexpr int head_pairs = 4;
constexpr int widest_head = 64 * head_pairs;
constexpr int head_warps = 4;

struct head_values {
  float low[head_pairs], high[head_pairs];
};

template <class T>
__device__ head_values load_head(const T* x, const T* bias, int half, int lane) {
  head_values v;
#pragma unroll
  for (int j = 0; j < head_pairs; ++j) {
    const int i = lane + 32 * j;
    v.low[j] = i < half ? to_float(x[i]) : 0.0F;
    v.high[j] = i < half ? to_float(x[i + half]) : 0.0F;
    if (bias != nullptr && i < half) {
      v.low[j] += to_float(bias[i]);
      v.high[j] += to_float(bias[i + half]);
    }
  }
  return v;
}

template <class T>
__device__ void store_head(const head_values& v, T* y, int half, int lane) {
#pragma unroll
  for (int j = 0; j < head_pairs; ++j) {
    const int i = lane + 32 * j;
    if (i >= half) continue;
    y[i] = from_float<T>(v.low[j]);
    y[i + half] = from_float<T>(v.high[j]);
  }
}

__device__ float head_rstd(const head_values& v, int half, float eps) {
  float sum = 0;
#pragma unroll
  for (int j = 0; j < head_pairs; ++j)
    sum += v.low[j] * v.low[j] + v.high[j] * v.high[j];
  return rsqrtf(warp_sum(sum) / static_cast<float>(2 * half) + eps);
}

template <class T>
__device__ void scale_head(head_values& v, const T* w, float rstd, int half, int lane) {
#pragma unroll
  for (int j = 0; j < head_pairs; ++j) {
    const int i = lane + 32 * j;
    if (i >= half) continue;
    v.low[j] *= rstd * to_float(w[i]);
    v.high[j] *= rstd * to_float(w[i + half]);
  }
}

/// direction 1: forward; -1: back.
__device__ void rotate_head(head_values& v, const float* cos, const float* sin, int64_t position,
                            int half, int lane, float direction) {
#pragma unroll
  for (int j = 0; j < head_pairs; ++j) {
    const int i = lane + 32 * j;
    if (i >= half) continue;
    const float c = cos[position * half + i], s = sin[position * half + i] * direction;
    const float low = v.low[j], high = v.high[j];
    v.low[j] = low * c - high * s;
    v.high[j] = high * c + low * s;
  }
}

template <class T>
struct head_weights {
  const T *q, *k;
  explicit head_weights(const quern_head_steps& how)
      : q(static_cast<const T*>(how.q_norm)), k(static_cast<const T*>(how.k_norm)) {}
};

template <class T>
__global__ void __launch_bounds__(32 * head_warps)
    split_heads_kernel(quern_heads shape, quern_head_steps how, head_weights<T> norms, int rows,
                       const T* qkv, const int64_t* positions, T* q, T* k, T* v, float* rstd) {
  const int lane = threadIdx.x % 32, half = shape.dim / 2;
  const int query_heads = shape.kv_heads * shape.group, heads = query_heads + 2 * shape.kv_heads;
  const int64_t row = blockIdx.x;
  for (int head = threadIdx.x / 32; head < heads; head += head_warps) {
    head_values x = load_head<T>(qkv + (row * heads + head) * shape.dim, nullptr, half, lane);
    T* to = nullptr;
    if (head < query_heads + shape.kv_heads) {
      const bool query = head < query_heads;
      const T* w = query ? norms.q : norms.k;
      if (w != nullptr) {
        const float scale = head_rstd(x, half, how.eps);
        scale_head(x, w, scale, half, lane);
        if (rstd != nullptr && lane == 0) rstd[row * (query_heads + shape.kv_heads) + head] = scale;
      }
      rotate_head(x, how.cos, how.sin, positions[row], half, lane, 1.0F);
      if (query) {
        const int kv = head / shape.group, member = head % shape.group;
        to = q + ((static_cast<int64_t>(kv) * rows + row) * shape.group + member) * shape.dim;
      } else {
        to = k + (static_cast<int64_t>(head - query_heads) * rows + row) * shape.dim;
      }
    } else {
      to = v + (static_cast<int64_t>(head - query_heads - shape.kv_heads) * rows + row) * shape.dim;
    }
    store_head(x, to, half, lane);
  }
}

/// Adds d (value of y times w times rstd) of a norm: dx in place of g, dw into the lane's sums.
template <class T>
__device__ void norm_head_backward(head_values& g, const T* x_row, const T* w, float rstd, int half,
                                   int lane, head_values& dw) {
  const head_values x = load_head<T>(x_row, nullptr, half, lane);
  float dot = 0;
#pragma unroll
  for (int j = 0; j < head_pairs; ++j) {
    const int i = lane + 32 * j;
    if (i >= half) continue;
    const float low = x.low[j] * rstd, high = x.high[j] * rstd;
    dw.low[j] += g.low[j] * low;
    dw.high[j] += g.high[j] * high;
    g.low[j] *= to_float(w[i]);
    g.high[j] *= to_float(w[i + half]);
    dot += g.low[j] * low + g.high[j] * high;
  }
  const float mean = warp_sum(dot) / static_cast<float>(2 * half);
#pragma unroll
  for (int j = 0; j < head_pairs; ++j) {
    g.low[j] = rstd * (g.low[j] - x.low[j] * rstd * mean);
    g.high[j] = rstd * (g.high[j] - x.high[j] * rstd * mean);
  }
}

/// The warps' sums of one norm, added up in their order: room[block, dim].
__device__ void store_part(const head_values& dw, float* shared, float* room, int half) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, dim = 2 * half;
  store_head<float>(dw, shared + warp * dim, half, lane);
  __syncthreads();
  for (int i = threadIdx.x; i < dim; i += blockDim.x) {
    float sum = 0;
    for (int p = 0; p < head_warps; ++p)
      sum += shared[p * dim + i];
    room[static_cast<int64_t>(blockIdx.x) * dim + i] = sum;
  }
  __syncthreads();
}

template <class T>
__global__ void __launch_bounds__(32 * head_warps)
    split_heads_backward_kernel(quern_heads shape, quern_head_steps how, head_weights<T> norms,
                                int rows, const T* dq, const T* dk, const T* dv, const T* qkv,
                                const float* rstd, const int64_t* positions, T* dqkv, float* q_room,
                                float* k_room) {
  __shared__ float shared[head_warps * widest_head];
  const int lane = threadIdx.x % 32, half = shape.dim / 2;
  const int query_heads = shape.kv_heads * shape.group, heads = query_heads + 2 * shape.kv_heads;
  head_values dw_q{}, dw_k{};
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x)
    for (int head = threadIdx.x / 32; head < heads; head += head_warps) {
      const int64_t at = (row * heads + head) * shape.dim;
      const T* from = nullptr;
      const bool query = head < query_heads, key = !query && head < query_heads + shape.kv_heads;
      if (query)
        from = dq + ((static_cast<int64_t>(head / shape.group) * rows + row) * shape.group +
                     head % shape.group) *
                        shape.dim;
      else if (key)
        from = dk + (static_cast<int64_t>(head - query_heads) * rows + row) * shape.dim;
      else
        from = dv +
               (static_cast<int64_t>(head - query_heads - shape.kv_heads) * rows + row) * shape.dim;
      head_values g = load_head<T>(from, nullptr, half, lane);
      if (query || key) {
        rotate_head(g, how.cos, how.sin, positions[row], half, lane, -1.0F);
        const T* w = query ? norms.q : norms.k;
        if (w != nullptr)
          norm_head_backward(g, qkv + at, w, rstd[row * (query_heads + shape.kv_heads) + head],
                             half, lane, query ? dw_q : dw_k);
      }
      store_head(g, dqkv + at, half, lane);
    }
  if (norms.q == nullptr) return;
  store_part(dw_q, shared, q_room, half);
  store_part(dw_k, shared, k_room, half);
}

template <class T>
__global__ void __launch_bounds__(32 * head_warps)
    heads_to_pages_kernel(quern_heads shape, quern_head_steps how, head_weights<T> norms,
                          quern_rows rows, const T* qkv, const T* bias, quern_pages pages, T* q) {
  const int lane = threadIdx.x % 32, half = shape.dim / 2;
  const int query_heads = shape.kv_heads * shape.group, heads = query_heads + 2 * shape.kv_heads;
  const int64_t row = blockIdx.x;
  const int slot = rows.slot[row], position = rows.position[row];
  if (slot < 0 || position < 0) return;
  const int64_t page =
      pages.tables[static_cast<int64_t>(slot) * pages.table_width + position / pages.page];
  const int in_page = position % pages.page;
  const int head = blockIdx.y * head_warps + threadIdx.x / 32;
  if (head >= heads) return;
  const T* own_bias = bias != nullptr ? bias + static_cast<int64_t>(head) * shape.dim : nullptr;
  head_values x = load_head<T>(qkv + (row * heads + head) * shape.dim, own_bias, half, lane);
  if (head < query_heads + shape.kv_heads) {
    const T* w = head < query_heads ? norms.q : norms.k;
    if (w != nullptr) scale_head(x, w, head_rstd(x, half, how.eps), half, lane);
    rotate_head(x, how.cos, how.sin, position, half, lane, 1.0F);
  }
  if (head < query_heads) {
    store_head(x, q + (row * query_heads + head) * shape.dim, half, lane);
    return;
  }
  const bool key = head < query_heads + shape.kv_heads;
  const int kv = head - query_heads - (key ? 0 : shape.kv_heads);
  T* cache = static_cast<T*>(key ? pages.keys : pages.values);
  store_head(x, cache + ((page * shape.kv_heads + kv) * pages.page + in_page) * shape.dim, half,
             lane);
}

bool bad(const quern_heads& s) {
  return s.kv_heads < 1 || s.group < 1 || s.dim < 2 || s.dim % 2 != 0 || s.dim > widest_head;
}

}  // namespace

int32_t split_heads(int32_t type, quern_heads shape, quern_head_steps how, int32_t rows,
                    const void* qkv, const int64_t* positions, void* q, void* k, void* v,
                    float* rstd, void* stream) {
  if (bad(shape) || rows < 0) return invalid;
  if (rows == 0) return 0;
  return with_element(type, [&](auto element) {
    using T = decltype(element);
    split_heads_kernel<T><<<rows, 32 * head_warps, 0, stream_of(stream)>>>(
        shape, how, head_weights<T>(how), rows, static_cast<const T*>(qkv), positions,
        static_cast<T*>(q), static_cast<T*>(k), static_cast<T*>(v), rstd);
    return launched();
  });
}

int32_t split_heads_backward(int32_t type, quern_heads shape, quern_head_steps how, int32_t rows,
                             const void* dq, const void* dk, const void* dv, const void* qkv,
                             const float* rstd, const int64_t* positions, void* dqkv,
                             float* dq_norm, float* dk_norm, float* room, void* stream) {
  if (bad(shape) || rows < 0) return invalid;
  if (rows == 0) return 0;
  const int parts = std::min<int>(rows, quern_partials);
  float* k_room = room + static_cast<int64_t>(parts) * shape.dim;
  const int32_t code = with_element(type, [&](auto element) {
    using T = decltype(element);
    const head_weights<T> norms(how);
    // Without norms no sums are made, and every row can have a block of its own.
    split_heads_backward_kernel<T>
        <<<norms.q != nullptr ? parts : rows, 32 * head_warps, 0, stream_of(stream)>>>(
            shape, how, norms, rows, static_cast<const T*>(dq), static_cast<const T*>(dk),
            static_cast<const T*>(dv), static_cast<const T*>(qkv), rstd, positions,
            static_cast<T*>(dqkv), room, k_room);
    return launched();
  });
  if (code != 0 || how.q_norm == nullptr) return code;
  if (const int32_t q = add_parts(parts, shape.dim, room, dq_norm, stream_of(stream)); q != 0)
    return q;
  return add_parts(parts, shape.dim, k_room, dk_norm, stream_of(stream));
}

int32_t heads_to_pages(int32_t type, quern_heads shape, quern_head_steps how, quern_rows rows,
                       const void* qkv, const void* bias, quern_pages pages, void* q,
                       void* stream) {
  if (bad(shape) || rows.count < 0 || pages.page < 1) return invalid;
  if (rows.count == 0) return 0;
  const int heads = shape.kv_heads * (shape.group + 2);
  const dim3 grid(rows.count, (heads + head_warps - 1) / head_warps);
  return with_element(type, [&](auto element) {
    using T = decltype(element);
    heads_to_pages_kernel<T><<<grid, 32 * head_warps, 0, stream_of(stream)>>>(
        shape, how, head_weights<T>(how), rows, static_cast<const T*>(qkv),
        static_cast<const T*>(bias), pages, static_cast<T*>(q));
    return launched();
  });
}

}  // namespace quern::policy::device
