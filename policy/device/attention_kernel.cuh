// Attention of single rows over pages: split over keys, query heads of a group together. In
// bfloat16 of dim 64 or 128 a block has one (row, split, kv head), its warps take chunks of keys in
// turn (attention_warp.cuh). The last block of a row and kv head to finish adds up the splits, in
// ascending order.
#pragma once

#include "policy/device/attention_warp.cuh"
#include "policy/device/common.cuh"

namespace quern::policy::device {

inline constexpr int attention_warps = 4;
inline constexpr int attention_threads = 32 * attention_warps;

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

/// Keys of a chunk, and blocks that share a multiprocessor's registers.
template <int dim, int head_tiles>
struct attention_form {
  static constexpr int chunk = 16, blocks = head_tiles > 1 ? 2 : dim == 64 ? 4 : 3;
};

template <int dim, int head_tiles>
struct alignas(16) attention_shared {
  static constexpr int members = head_tiles * tile_heads;
  float out[attention_warps][members][dim + 4];
  float top[attention_warps][members], sum[attention_warps][members];
  int is_last;
};

template <int dim, int head_tiles>
__device__ void store_warp(const warp_state<dim, head_tiles>& state, int group, int warp, int lane,
                           attention_shared<dim, head_tiles>& shared) {
  const int g = lane / 4, t = lane % 4;
#pragma unroll
  for (int m = 0; m < head_tiles; ++m)
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int member = m * tile_heads + 2 * t + j;
      float sum = state.sum[m][j];
#pragma unroll
      for (int step = 4; step < 32; step *= 2)
        sum += __shfl_xor_sync(all_lanes, sum, step);
      if (member >= group) continue;  // no lane waits for another below
      if (g == 0) {
        shared.top[warp][member] = state.top[m][j];
        shared.sum[warp][member] = sum;
      }
#pragma unroll
      for (int tile = 0; tile < warp_state<dim, head_tiles>::tiles; ++tile)
        *reinterpret_cast<float2*>(
            &shared.out[warp][member][tile / 4 * 64 + g * 8 + tile % 4 * 2]) =
            make_float2(state.out[m][tile][j], state.out[m][tile][2 + j]);
    }
}

/// Of the block's split: unnormalised output of (member, d), with the top and sum that belong to
/// it.
template <int dim, int head_tiles>
__device__ float join_warps(const attention_shared<dim, head_tiles>& shared, int member, int d,
                            float& top, float& sum) {
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

/// A work item: keys [begin, end) of one row, for one kv head.
struct attention_work {
  int row = 0, split = 0, slot = 0, length = 0;
};

/// Row and split of a work item; of none behind the last, the first row.
__device__ inline attention_work work_of(const attention_arguments& a, int64_t number,
                                         int64_t total) {
  attention_work work;
  if (number >= total) return work;
  const int item = static_cast<int>(number / a.shape.kv_heads);
  work.row = a.plan.items[1 + 2 * item];
  work.split = a.plan.items[2 + 2 * item];
  return work;
}

__device__ inline void find_slot(const attention_arguments& a, attention_work& work) {
  work.slot = a.rows.slot[work.row];
  work.length = a.rows.position[work.row] + 1;
}

/// Keys of a warp from `from` on, within a page.
template <int dim>
__device__ chunk_place place_of(const attention_arguments& a, const int32_t* table, int head,
                                int from, int count) {
  const int64_t page = table[from / a.pages.page];
  const int64_t at = ((page * a.shape.kv_heads + head) * a.pages.page + from % a.pages.page) * dim;
  return {static_cast<const bf16*>(a.pages.keys) + at,
          static_cast<const bf16*>(a.pages.values) + at, count};
}

/// Splits of a row of `length` keys, and the keys of each but the last: equal parts, since a block
/// that has a long one would be waited for; whole turns of a block's warps.
__device__ inline int splits_of(int length) {
  return (length + quern_split - 1) / quern_split;
}
__device__ inline int keys_of_split(int length) {
  const int splits = splits_of(length), equal = (length + splits - 1) / splits;
  return (equal + quern_split_step - 1) / quern_split_step * quern_split_step;
}

/// All chunks of this warp.
template <int dim, int head_tiles>
__device__ void attend(const attention_arguments& a, const attention_work& work, int head, int warp,
                       int lane, warp_state<dim, head_tiles>& state) {
  constexpr int chunk = attention_form<dim, head_tiles>::chunk, stride = attention_warps * chunk;
  static_assert(quern_split_step % stride == 0 && quern_split % quern_split_step == 0);
  const int keys_each = keys_of_split(work.length), begin = work.split * keys_each,
            end = min(work.length, begin + keys_each);
  int from = begin + warp * chunk;
  if (from >= end) return;
  const int32_t* table = a.pages.tables + static_cast<int64_t>(work.slot) * a.pages.table_width;
  chunk_place place = place_of<dim>(a, table, head, from, min(chunk, end - from));
  key_words<dim, chunk> keys;
  value_words<dim, chunk> values;
  load_keys<dim, chunk>(place, lane, keys);
  load_values<dim, chunk>(place, lane, values);
  const int heads = a.shape.kv_heads * a.shape.group;
  const auto q = load_queries<dim, head_tiles>(
      a.q + (static_cast<int64_t>(work.row) * heads + head * a.shape.group) * dim, a.shape.group,
      lane);
  for (;;) {
    const int next = from + stride;
    const bool more = next < end;
    const int count = place.count;
    if (more) place = place_of<dim>(a, table, head, next, min(chunk, end - next));
    chunk_scores<chunk, head_tiles> scores;
    score_keys<dim, chunk, head_tiles>(q, keys, count, a.scale, lane, scores);
    if (more) load_keys<dim, chunk>(place, lane, keys);
    weigh<dim, chunk, head_tiles>(scores, state);
    add_values<dim, chunk, head_tiles>(scores, values, state);
    if (!more) return;
    load_values<dim, chunk>(place, lane, values);
    from = next;
  }
}

template <int dim, int head_tiles>
__global__ void __launch_bounds__(attention_threads, (attention_form<dim, head_tiles>::blocks))
    paged_attention_kernel(attention_arguments a) {
  __shared__ attention_shared<dim, head_tiles> shared;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int kv_heads = a.shape.kv_heads, group = a.shape.group, heads = kv_heads * group;
  const int64_t total = static_cast<int64_t>(a.plan.items[0]) * kv_heads;
  attention_work work = work_of(a, blockIdx.x, total), next;
  find_slot(a, work);
  for (int64_t number = blockIdx.x; number < total; number += gridDim.x, work = next) {
    const int head = static_cast<int>(number % kv_heads),
              item = static_cast<int>(number / kv_heads);
    // What comes next is looked up meanwhile: each word of it depends on the one before.
    next = work_of(a, number + gridDim.x, total);
    warp_state<dim, head_tiles> state;
#pragma unroll
    for (int m = 0; m < head_tiles; ++m) {
#pragma unroll
      for (int tile = 0; tile < warp_state<dim, head_tiles>::tiles; ++tile)
        state.out[m][tile][0] = state.out[m][tile][1] = state.out[m][tile][2] =
            state.out[m][tile][3] = 0;
      state.top[m][0] = state.top[m][1] = minus_infinity;
      state.sum[m][0] = state.sum[m][1] = 0;
    }
    attend<dim, head_tiles>(a, work, head, warp, lane, state);
    find_slot(a, next);
    store_warp<dim, head_tiles>(state, group, warp, lane, shared);
    __syncthreads();
    const int splits = splits_of(work.length);
    for (int i = threadIdx.x; i < group * dim; i += attention_threads) {
      const int member = i / dim, d = i % dim, query = head * group + member;
      float top = 0, sum = 0;
      const float out = join_warps<dim, head_tiles>(shared, member, d, top, sum);
      if (splits == 1) {
        a.out[(static_cast<int64_t>(work.row) * heads + query) * dim + d] =
            from_float<bf16>(out / sum);
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
      // The barrier brings the block's writes before the fence of one thread, and that one's
      // reading before what the block reads then: a fence of every thread would cost as often.
      __syncthreads();
      if (threadIdx.x == 0) {
        __threadfence();
        int32_t* counter = a.room.counters + static_cast<int64_t>(work.row) * kv_heads + head;
        shared.is_last = atomicAdd(counter, 1) == splits - 1 ? 1 : 0;
        if (shared.is_last != 0) *counter = 0;
        __threadfence();
      }
      __syncthreads();
      if (shared.is_last != 0)
        join_splits<dim>(a, work.row, head, a.plan.first_item[work.row], splits);
    }
    __syncthreads();  // shared memory is free again
  }
}

}  // namespace quern::policy::device
