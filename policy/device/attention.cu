// Attention of single rows over pages: split over keys, query heads of a group together.
//
// Tensor-core form (bfloat16, dim 64 or 128): a block has one (row, split, kv head), its warps take
// chunks of keys in turn. S = Q K^T and O += P V are m16n8k16 products with the group's query heads
// as the 16 rows. No operand passes through shared memory: the k index of a product may be permuted
// freely as long as both operands agree, and the columns of O may be in any order, so every thread
// loads 16 contiguous bytes of a key or value and calls them the fragments it needs:
//  * S: in a chunk of 32 dims, thread t of a quad has dims 8 t .. 8 t + 7: words 0 and 1 are its
//    b0 and b1 of one product, words 2 and 3 those of the next; Q is loaded in the same way.
//  * O: column g of tile (h, j) is dim 64 h + 8 g + j; b0 pairs keys 2 t and 2 t + 1, b1 keys
//    2 t + 8 and 2 t + 9, where t is the lane's place in its quad and g its quad.
// The accumulator layout of two neighbouring tiles of S is the A layout of P (arXiv 2307.08691).
// The last block of a row and kv head to finish adds up the splits, in ascending order.
#include <algorithm>
#include <cmath>

#include "policy/device/common.cuh"
#include "policy/device/functions.hpp"

namespace quern::policy::device {
namespace {

constexpr int attention_warps = 4;
constexpr int attention_threads = 32 * attention_warps;
constexpr int most_members = 16;  // rows of a product
constexpr float minus_infinity = -INFINITY;

struct attention_arguments {
  quern_heads shape;
  quern_rows rows;
  quern_pages pages;
  quern_attention_plan plan;
  quern_attention_room room;
  const bf16* q;
  bf16* out;
  float scale;  ///< of scores, with the factor of base 2
};

__device__ void multiply(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                         uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

__device__ uint32_t two_bf16(float low, float high) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&both);
}

__device__ uint4 load16(const bf16* p) {
  return *reinterpret_cast<const uint4*>(p);
}

/// Of one warp over its chunks of a split: rows g and g + 8 of the accumulators.
template <int dim>
struct warp_state {
  static constexpr int tiles = dim / 8;
  float out[tiles][4];
  float top[2], sum[2];
};

/// Words of Q for all products, see above.
template <int dim>
struct query_words {
  uint32_t at[dim / 16][4];
};

template <int dim>
__device__ query_words<dim> load_queries(const bf16* q, int group, int lane) {
  const int g = lane / 4, t = lane % 4;
  query_words<dim> words;
#pragma unroll
  for (int c = 0; c < dim / 32; ++c) {
    const uint4 zero = make_uint4(0, 0, 0, 0);
    const uint4 low = g < group ? load16(q + g * dim + c * 32 + t * 8) : zero;
    const uint4 high = g + 8 < group ? load16(q + (g + 8) * dim + c * 32 + t * 8) : zero;
    words.at[2 * c][0] = low.x;
    words.at[2 * c][1] = high.x;
    words.at[2 * c][2] = low.y;
    words.at[2 * c][3] = high.y;
    words.at[2 * c + 1][0] = low.z;
    words.at[2 * c + 1][1] = high.z;
    words.at[2 * c + 1][2] = low.w;
    words.at[2 * c + 1][3] = high.w;
  }
  return words;
}

/// Keys [from, from + chunk) of one page, of which those below `count` exist; the others are read
/// as the last that exists and masked.
template <int dim, int chunk>
__device__ void attend_chunk(const query_words<dim>& q, const bf16* keys, const bf16* values,
                             int count, float scale, int lane, warp_state<dim>& state) {
  constexpr int key_tiles = chunk / 8, steps = chunk / 16, halves = dim / 64;
  const int g = lane / 4, t = lane % 4, last = count - 1;
  uint4 key_words[key_tiles][dim / 32], value_words[steps][4][halves];
#pragma unroll
  for (int n = 0; n < key_tiles; ++n) {
    const bf16* key = keys + static_cast<int64_t>(min(n * 8 + g, last)) * dim + t * 8;
#pragma unroll
    for (int c = 0; c < dim / 32; ++c)
      key_words[n][c] = load16(key + c * 32);
  }
#pragma unroll
  for (int s = 0; s < steps; ++s)
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int key = s * 16 + t * 2 + (r & 1) + (r >> 1) * 8;
      const bf16* value = values + static_cast<int64_t>(min(key, last)) * dim + g * 8;
#pragma unroll
      for (int h = 0; h < halves; ++h)
        value_words[s][r][h] = load16(value + h * 64);
    }

  float score[key_tiles][4];
#pragma unroll
  for (int n = 0; n < key_tiles; ++n) {
    score[n][0] = score[n][1] = score[n][2] = score[n][3] = 0;
#pragma unroll
    for (int c = 0; c < dim / 32; ++c) {
      const uint4 k = key_words[n][c];
      const uint32_t(&a)[4] = q.at[2 * c];
      const uint32_t(&b)[4] = q.at[2 * c + 1];
      multiply(score[n], a[0], a[1], a[2], a[3], k.x, k.y);
      multiply(score[n], b[0], b[1], b[2], b[3], k.z, k.w);
    }
  }
  float top[2] = {state.top[0], state.top[1]};
#pragma unroll
  for (int n = 0; n < key_tiles; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int key = n * 8 + t * 2 + (i & 1);
      score[n][i] = key < count ? score[n][i] * scale : minus_infinity;
      top[i >> 1] = fmaxf(top[i >> 1], score[n][i]);
    }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    top[i] = fmaxf(top[i], __shfl_xor_sync(all_lanes, top[i], 1));
    top[i] = fmaxf(top[i], __shfl_xor_sync(all_lanes, top[i], 2));
    const float shrink = exp2f(state.top[i] - top[i]);  // count > 0, so that top is finite
    state.sum[i] *= shrink;
#pragma unroll
    for (int tile = 0; tile < warp_state<dim>::tiles; ++tile) {
      state.out[tile][2 * i] *= shrink;
      state.out[tile][2 * i + 1] *= shrink;
    }
    state.top[i] = top[i];
  }
#pragma unroll
  for (int n = 0; n < key_tiles; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      score[n][i] = exp2f(score[n][i] - top[i >> 1]);
      state.sum[i >> 1] += score[n][i];
    }
#pragma unroll
  for (int s = 0; s < steps; ++s) {
    const float(&first)[4] = score[2 * s];
    const float(&second)[4] = score[2 * s + 1];
    const uint32_t a0 = two_bf16(first[0], first[1]), a1 = two_bf16(first[2], first[3]),
                   a2 = two_bf16(second[0], second[1]), a3 = two_bf16(second[2], second[3]);
#pragma unroll
    for (int h = 0; h < halves; ++h) {
      const uint4(&v)[4][halves] = value_words[s];
      const uint32_t r0[4] = {v[0][h].x, v[0][h].y, v[0][h].z, v[0][h].w};
      const uint32_t r1[4] = {v[1][h].x, v[1][h].y, v[1][h].z, v[1][h].w};
      const uint32_t r2[4] = {v[2][h].x, v[2][h].y, v[2][h].z, v[2][h].w};
      const uint32_t r3[4] = {v[3][h].x, v[3][h].y, v[3][h].z, v[3][h].w};
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        multiply(state.out[h * 8 + 2 * w], a0, a1, a2, a3, __byte_perm(r0[w], r1[w], 0x5410),
                 __byte_perm(r2[w], r3[w], 0x5410));
        multiply(state.out[h * 8 + 2 * w + 1], a0, a1, a2, a3, __byte_perm(r0[w], r1[w], 0x7632),
                 __byte_perm(r2[w], r3[w], 0x7632));
      }
    }
  }
}

template <int dim>
struct attention_shared {
  float out[attention_warps][most_members][dim + 4];
  float top[attention_warps][most_members], sum[attention_warps][most_members];
  int is_last;
};

template <int dim>
__device__ void store_warp(const warp_state<dim>& state, int group, int warp, int lane,
                           attention_shared<dim>& shared) {
  const int g = lane / 4, t = lane % 4;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int member = g + 8 * i;
    float sum = state.sum[i];
    sum += __shfl_xor_sync(all_lanes, sum, 1);
    sum += __shfl_xor_sync(all_lanes, sum, 2);
    if (member >= group) continue;  // a whole quad, so that nobody waits for it above
    if (t == 0) {
      shared.top[warp][member] = state.top[i];
      shared.sum[warp][member] = sum;
    }
#pragma unroll
    for (int tile = 0; tile < warp_state<dim>::tiles; ++tile) {
      const int at = tile / 8 * 64 + tile % 8 + t * 16;
      shared.out[warp][member][at] = state.out[tile][2 * i];
      shared.out[warp][member][at + 8] = state.out[tile][2 * i + 1];
    }
  }
}

/// Of the block's split: unnormalised output of (member, d), with the top and sum that belong to
/// it.
template <int dim>
__device__ float join_warps(const attention_shared<dim>& shared, int member, int d, float& top,
                            float& sum) {
  top = shared.top[0][member];
#pragma unroll
  for (int w = 1; w < attention_warps; ++w)
    top = fmaxf(top, shared.top[w][member]);
  float out = 0;
  sum = 0;
#pragma unroll
  for (int w = 0; w < attention_warps; ++w) {
    const float part = exp2f(shared.top[w][member] - top);  // 0 for a warp without a chunk
    sum += shared.sum[w][member] * part;
    out += shared.out[w][member][d] * part;
  }
  return out;
}

/// Adds up the splits of (row, kv head): items first .. first + splits.
template <int dim>
__device__ void join_splits(const attention_arguments& a, int row, int head, int first,
                            int splits) {
  const int heads = a.shape.kv_heads * a.shape.group, stride = dim + 2;
  for (int i = threadIdx.x; i < a.shape.group * dim; i += attention_threads) {
    const int member = i / dim, d = i % dim, query = head * a.shape.group + member;
    const float* part = a.room.partial + (static_cast<int64_t>(first) * heads + query) * stride;
    const int64_t step = static_cast<int64_t>(heads) * stride;
    float top = minus_infinity;
    for (int s = 0; s < splits; ++s)
      top = fmaxf(top, __ldcg(part + s * step + dim));
    float out = 0, sum = 0;
    for (int s = 0; s < splits; ++s) {
      const float factor = exp2f(__ldcg(part + s * step + dim) - top);
      sum += __ldcg(part + s * step + dim + 1) * factor;
      out += __ldcg(part + s * step + d) * factor;
    }
    a.out[(static_cast<int64_t>(row) * heads + query) * dim + d] = from_float<bf16>(out / sum);
  }
}

template <int dim>
__global__ void __launch_bounds__(attention_threads) paged_attention_kernel(attention_arguments a) {
  constexpr int chunk = dim == 64 ? 32 : 16;
  __shared__ attention_shared<dim> shared;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int kv_heads = a.shape.kv_heads, group = a.shape.group, heads = kv_heads * group;
  const int64_t total = static_cast<int64_t>(a.plan.items[0]) * kv_heads;
  for (int64_t work = blockIdx.x; work < total; work += gridDim.x) {
    const int head = static_cast<int>(work % kv_heads), item = static_cast<int>(work / kv_heads);
    const int row = a.plan.items[1 + 2 * item], split = a.plan.items[2 + 2 * item];
    const int slot = a.rows.slot[row], length = a.rows.position[row] + 1;
    const int begin = split * quern_split, end = min(length, begin + quern_split);
    const int32_t* table = a.pages.tables + static_cast<int64_t>(slot) * a.pages.table_width;
    const query_words<dim> q = load_queries<dim>(
        a.q + (static_cast<int64_t>(row) * heads + head * group) * dim, group, lane);
    warp_state<dim> state;
#pragma unroll
    for (int tile = 0; tile < warp_state<dim>::tiles; ++tile)
      state.out[tile][0] = state.out[tile][1] = state.out[tile][2] = state.out[tile][3] = 0;
    state.top[0] = state.top[1] = minus_infinity;
    state.sum[0] = state.sum[1] = 0;
    for (int from = begin + warp * chunk; from < end; from += attention_warps * chunk) {
      const int64_t page = table[from / a.pages.page];
      const int64_t at = ((page * kv_heads + head) * a.pages.page + from % a.pages.page) * dim;
      attend_chunk<dim, chunk>(q, static_cast<const bf16*>(a.pages.keys) + at,
                               static_cast<const bf16*>(a.pages.values) + at,
                               min(chunk, end - from), a.scale, lane, state);
    }
    store_warp<dim>(state, group, warp, lane, shared);
    __syncthreads();
    const int splits = (length + quern_split - 1) / quern_split;
    for (int i = threadIdx.x; i < group * dim; i += attention_threads) {
      const int member = i / dim, d = i % dim, query = head * group + member;
      float top = 0, sum = 0;
      const float out = join_warps<dim>(shared, member, d, top, sum);
      if (splits == 1) {
        a.out[(static_cast<int64_t>(row) * heads + query) * dim + d] = from_float<bf16>(out / sum);
      } else {
        float* part = a.room.partial + (static_cast<int64_t>(item) * heads + query) * (dim + 2);
        part[d] = out;
        if (d == 0) {
          part[dim] = top;
          part[dim + 1] = sum;
        }
      }
    }
    if (splits > 1) {
      __threadfence();
      __syncthreads();
      if (threadIdx.x == 0) {
        int32_t* counter = a.room.counters + static_cast<int64_t>(row) * kv_heads + head;
        shared.is_last = atomicAdd(counter, 1) == splits - 1 ? 1 : 0;
        if (shared.is_last != 0) *counter = 0;
      }
      __syncthreads();
      if (shared.is_last != 0) {
        __threadfence();
        join_splits<dim>(a, row, head, a.plan.first_item[row], splits);
      }
    }
    __syncthreads();  // shared memory is free again
  }
}

/// Blocks that fill the device, a few for each multiprocessor; more find no work.
template <int dim>
int32_t split_attention(const attention_arguments& a, cudaStream_t stream) {
  static int resident = 0;  // the same for every caller
  if (resident == 0) {
    int device = 0, processors = 0, blocks = 0;
    if (const auto code = cudaGetDevice(&device); code != cudaSuccess) return code;
    if (const auto code =
            cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
        code != cudaSuccess)
      return code;
    if (const auto code = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
            &blocks, paged_attention_kernel<dim>, attention_threads, 0);
        code != cudaSuccess)
      return code;
    resident = std::max(1, processors * blocks);
  }
  const int64_t most =
      static_cast<int64_t>(a.rows.count) * a.shape.kv_heads *
      ((static_cast<int64_t>(a.pages.table_width) * a.pages.page + quern_split - 1) / quern_split);
  const auto blocks = static_cast<int>(std::min<int64_t>(most, resident));
  paged_attention_kernel<dim><<<blocks, attention_threads, 0, stream>>>(a);
  return launched();
}

}  // namespace

int32_t paged_attention(int32_t type, quern_heads shape, quern_rows rows, quern_pages pages,
                        quern_attention_plan plan, quern_attention_room room, const void* q,
                        void* out, void* stream) {
  if (shape.kv_heads < 1 || shape.group < 1 || shape.dim < 1 || shape.dim > 256 || rows.count < 0 ||
      pages.page < 32 || pages.page % 32 != 0 || pages.table_width < 1)
    return invalid;
  if (rows.count == 0) return 0;
  const float scale =
      static_cast<float>(1.4426950408889634 / std::sqrt(static_cast<double>(shape.dim)));
  if (type == quern_bf16 && shape.group <= most_members && (shape.dim == 64 || shape.dim == 128)) {
    const attention_arguments a{
        shape, rows, pages, plan, room, static_cast<const bf16*>(q), static_cast<bf16*>(out),
        scale};
    return shape.dim == 64 ? split_attention<64>(a, stream_of(stream))
                           : split_attention<128>(a, stream_of(stream));
  }
  return plain_attention(type, shape, rows, pages, q, out, scale, stream);
}

}  // namespace quern::policy::device
