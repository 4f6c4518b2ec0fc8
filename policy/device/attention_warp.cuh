// One warp's part of attention over pages, on tensor cores: scores, weights and sums of a chunk of
// keys, for the query heads of a group.
//
// S' = K Q' and O' += V' P' are m16n8k16 products with the group's query heads as the 8 columns
// (two times 8 for large groups): with the heads as rows half of every product would be empty. No
// operand passes through shared memory: the k index of a product may be permuted freely as long as
// both operands agree, and the rows of O' may be in any order, so every thread loads 16 contiguous
// bytes of a key or value and calls them the fragments it needs:
//  * S': in a chunk of 32 dims, thread t of a quad has dims 8 t .. 8 t + 7 of keys g and g + 8:
//    words 0 and 1 are of one product, words 2 and 3 of the next; Q is loaded in the same way.
//  * O': rows g and g + 8 of tile (h, w) are dims 64 h + 8 g + 2 w and the one after it; the k
//    index pairs keys 2 t and 2 t + 1, and 2 t + 8 and 2 t + 9, where t is the lane's place in its
//    quad and g its quad.
// The accumulators of S' have a key a quad and two heads a lane; transposed by 8 x 8 they are the
// second operand of O'.
#pragma once

#include <cmath>

#include "policy/device/common.cuh"
#include "policy/device/tensor_core.cuh"

namespace quern::policy::device {

inline constexpr float minus_infinity = -INFINITY;

__device__ inline uint32_t two_bf16(float low, float high) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&both);
}

__device__ inline uint4 load16(const bf16* p) {
  return *reinterpret_cast<const uint4*>(p);
}

/// Heads that one product takes.
inline constexpr int tile_heads = 8;

/// Of one warp over its chunks of a split: heads 8 m + 2 t and the next of head tile m; sums over
/// the keys that this lane has seen.
template <int dim, int head_tiles>
struct warp_state {
  static constexpr int tiles = dim / 16;
  float out[head_tiles][tiles][4];
  float top[head_tiles][2], sum[head_tiles][2];
};

/// Words of Q for all products, see above.
template <int dim, int head_tiles>
struct query_words {
  uint4 at[head_tiles][dim / 32];
};

template <int dim, int head_tiles>
__device__ query_words<dim, head_tiles> load_queries(const bf16* q, int group, int lane) {
  const int g = lane / 4, t = lane % 4;
  query_words<dim, head_tiles> words;
#pragma unroll
  for (int m = 0; m < head_tiles; ++m)
#pragma unroll
    for (int c = 0; c < dim / 32; ++c)
      words.at[m][c] = m * tile_heads + g < group
                           ? load16(q + (m * tile_heads + g) * dim + c * 32 + t * 8)
                           : make_uint4(0, 0, 0, 0);
  return words;
}

/// Keys of one page from some place on, of which `count` exist; others are read as the last that
/// exists and masked.
struct chunk_place {
  const bf16 *keys, *values;
  int count;
};

template <int dim, int chunk>
struct key_words {
  uint4 at[chunk / 16][2][dim / 32];
};

template <int dim, int chunk>
__device__ void load_keys(const chunk_place& from, int lane, key_words<dim, chunk>& to) {
  const int g = lane / 4, t = lane % 4;
#pragma unroll
  for (int n = 0; n < chunk / 16; ++n)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int key = min(n * 16 + r * 8 + g, from.count - 1);
#pragma unroll
      for (int c = 0; c < dim / 32; ++c)
        to.at[n][r][c] = load16(from.keys + static_cast<int64_t>(key) * dim + c * 32 + t * 8);
    }
}

template <int dim, int chunk>
struct value_words {
  uint4 at[chunk / 16][dim / 64][4];
};

template <int dim, int chunk>
__device__ void load_values(const chunk_place& from, int lane, value_words<dim, chunk>& to) {
  const int g = lane / 4, t = lane % 4;
#pragma unroll
  for (int n = 0; n < chunk / 16; ++n)
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int key = min(n * 16 + t * 2 + (r & 1) + (r >> 1) * 8, from.count - 1);
#pragma unroll
      for (int h = 0; h < dim / 64; ++h)
        to.at[n][h][r] = load16(from.values + static_cast<int64_t>(key) * dim + h * 64 + g * 8);
    }
}

/// Of a chunk: [16 keys][head tile], keys g and g + 8 of heads 2 t and 2 t + 1.
template <int chunk, int head_tiles>
struct chunk_scores {
  float at[chunk / 16][head_tiles][4];
};

template <int dim, int chunk, int head_tiles>
__device__ void score_keys(const query_words<dim, head_tiles>& q, const key_words<dim, chunk>& keys,
                           int count, float scale, int lane,
                           chunk_scores<chunk, head_tiles>& scores) {
  const int g = lane / 4;
#pragma unroll
  for (int n = 0; n < chunk / 16; ++n)
#pragma unroll
    for (int m = 0; m < head_tiles; ++m) {
      float(&s)[4] = scores.at[n][m];
      s[0] = s[1] = s[2] = s[3] = 0;
#pragma unroll
      for (int c = 0; c < dim / 32; ++c) {
        const uint4 low = keys.at[n][0][c], high = keys.at[n][1][c], head = q.at[m][c];
        multiply(s, low.x, high.x, low.y, high.y, head.x, head.y);
        multiply(s, low.z, high.z, low.w, high.w, head.z, head.w);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i)
        s[i] = n * 16 + g + (i >> 1) * 8 < count ? s[i] * scale : minus_infinity;
    }
}

/// Scores become weights relative to the highest score so far, to which the state is brought, too.
template <int dim, int chunk, int head_tiles>
__device__ void weigh(chunk_scores<chunk, head_tiles>& scores, warp_state<dim, head_tiles>& state) {
#pragma unroll
  for (int m = 0; m < head_tiles; ++m)
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      float top = state.top[m][j];
#pragma unroll
      for (int n = 0; n < chunk / 16; ++n)
        top = fmaxf(top, fmaxf(scores.at[n][m][j], scores.at[n][m][2 + j]));
#pragma unroll
      for (int step = 4; step < 32; step *= 2)
        top = fmaxf(top, __shfl_xor_sync(all_lanes, top, step));
      const float shrink =
          exp2f(state.top[m][j] - top);  // a chunk has a key, so that top is finite
      float sum = state.sum[m][j] * shrink;
#pragma unroll
      for (int n = 0; n < chunk / 16; ++n)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          float& score = scores.at[n][m][2 * r + j];
          score = exp2f(score - top);
          sum += score;
        }
#pragma unroll
      for (int tile = 0; tile < warp_state<dim, head_tiles>::tiles; ++tile) {
        state.out[m][tile][j] *= shrink;
        state.out[m][tile][2 + j] *= shrink;
      }
      state.top[m][j] = top;
      state.sum[m][j] = sum;
    }
}

template <int dim, int chunk, int head_tiles>
__device__ void add_values(const chunk_scores<chunk, head_tiles>& weights,
                           const value_words<dim, chunk>& values,
                           warp_state<dim, head_tiles>& state) {
#pragma unroll
  for (int n = 0; n < chunk / 16; ++n) {
    uint32_t low[head_tiles], high[head_tiles];
#pragma unroll
    for (int m = 0; m < head_tiles; ++m) {
      const float(&w)[4] = weights.at[n][m];
      low[m] = transposed(two_bf16(w[0], w[1]));
      high[m] = transposed(two_bf16(w[2], w[3]));
    }
#pragma unroll
    for (int h = 0; h < dim / 64; ++h) {
      const uint4(&v)[4] = values.at[n][h];
      const uint32_t words[4][4] = {{v[0].x, v[0].y, v[0].z, v[0].w},
                                    {v[1].x, v[1].y, v[1].z, v[1].w},
                                    {v[2].x, v[2].y, v[2].z, v[2].w},
                                    {v[3].x, v[3].y, v[3].z, v[3].w}};
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        const uint32_t a0 = __byte_perm(words[0][w], words[1][w], 0x5410),
                       a1 = __byte_perm(words[0][w], words[1][w], 0x7632),
                       a2 = __byte_perm(words[2][w], words[3][w], 0x5410),
                       a3 = __byte_perm(words[2][w], words[3][w], 0x7632);
#pragma unroll
        for (int m = 0; m < head_tiles; ++m)
          multiply(state.out[m][h * 4 + w], a0, a1, a2, a3, low[m], high[m]);
      }
    }
  }
}

}  // namespace quern::policy::device
