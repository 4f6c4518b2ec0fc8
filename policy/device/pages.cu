// Between steps and around them: edits of the slots' state, rows of a pass, pages copied and
// gathered.
#include <algorithm>

#include "policy/device/common.cuh"
#include "policy/device/functions.hpp"

namespace quern::policy::device {
namespace {

constexpr int plan_threads = 512;
constexpr int copy_threads = 128;

__global__ void apply_edits_kernel(int32_t* words, const int32_t* edits, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) words[edits[2 * i]] = edits[2 * i + 1];
}

/// Sum of x over the threads before this one; `total` is that of the block.
__device__ int block_scan(int x, int* shared, int& total) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = plan_threads / 32;
  int sum = x;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int before = __shfl_up_sync(all_lanes, sum, step);
    if (lane >= step) sum += before;
  }
  if (lane == 31) shared[warp] = sum;
  __syncthreads();
  int offset = 0;
  total = 0;
  for (int i = 0; i < warps; ++i) {
    if (i < warp) offset += shared[i];
    total += shared[i];
  }
  __syncthreads();
  return offset + sum - x;
}

__global__ void __launch_bounds__(plan_threads)
    begin_pass_kernel(int rows, const int32_t* slots, const int32_t* given_position,
                      const int32_t* given_token, const int32_t* state, int32_t* position,
                      int32_t* token, quern_attention_plan plan) {
  __shared__ int shared[plan_threads / 32];
  int before = 0;
  for (int base = 0; base < rows; base += plan_threads) {
    const int row = base + static_cast<int>(threadIdx.x);
    int splits = 0;
    if (row < rows) {
      const int slot = slots[row];
      int own_position = slot < 0 ? -1 : given_position[row], own_token = given_token[row];
      if (slot >= 0 && own_position < 0) {
        const int32_t* words = state + static_cast<int64_t>(slot) * quern_slot_words;
        const bool active = words[quern_slot_active] != 0;
        own_position = active ? words[quern_slot_position] : -1;
        own_token = words[quern_slot_token];
      }
      position[row] = own_position;
      token[row] = own_position < 0 ? -1 : own_token;
      splits = own_position < 0 ? 0 : own_position / quern_split + 1;
    }
    if (plan.items == nullptr) continue;
    int total = 0;
    const int first = before + block_scan(splits, shared, total);
    if (row < rows) {
      plan.first_item[row] = first;
      for (int s = 0; s < splits; ++s) {
        plan.items[1 + 2 * (first + s)] = row;
        plan.items[2 + 2 * (first + s)] = s;
      }
    }
    before += total;
  }
  if (threadIdx.x == 0 && plan.items != nullptr) plan.items[0] = before;
}

/// Rows of `units` units each.
template <class U>
__global__ void take_rows_kernel(int units, const U* table, const int32_t* index, U* out) {
  const int64_t row = blockIdx.x, from = index[row];
  for (int i = threadIdx.x; i < units; i += blockDim.x)
    out[row * units + i] = from < 0 ? U{} : table[from * units + i];
}

template <class U>
__global__ void gather_pages_kernel(quern_heads shape, int units, quern_pages pages,
                                    const int32_t* slots, const int32_t* begin, U* keys,
                                    U* values) {
  const int sequence = blockIdx.y, length = begin[sequence + 1] - begin[sequence];
  const int position = blockIdx.x;
  if (position >= length) return;
  const int64_t page = pages.tables[static_cast<int64_t>(slots[sequence]) * pages.table_width +
                                    position / pages.page];
  const int64_t to = (static_cast<int64_t>(begin[sequence]) + position) * shape.kv_heads * units;
  for (int i = threadIdx.x; i < shape.kv_heads * units; i += blockDim.x) {
    const int head = i / units, unit = i % units;
    const int64_t from =
        ((page * shape.kv_heads + head) * pages.page + position % pages.page) * units + unit;
    keys[to + i] = static_cast<const U*>(pages.keys)[from];
    values[to + i] = static_cast<const U*>(pages.values)[from];
  }
}

__global__ void copy_pages_kernel(uint4* base, int64_t slab_units, int64_t page_units,
                                  const int32_t* pairs) {
  const int64_t slab = blockIdx.y * slab_units;
  const uint4* from = base + slab + pairs[2 * blockIdx.z] * page_units;
  uint4* to = base + slab + pairs[2 * blockIdx.z + 1] * page_units;
  for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < page_units;
       i += static_cast<int64_t>(gridDim.x) * blockDim.x)
    to[i] = from[i];
}

int64_t bytes_of(int32_t type) {
  return type == quern_bf16 ? 2 : 4;
}

}  // namespace

int32_t apply_edits(int32_t* words, const int32_t* edits, int32_t count, void* stream) {
  if (count < 0) return invalid;
  if (count == 0) return 0;
  apply_edits_kernel<<<(count + 255) / 256, 256, 0, stream_of(stream)>>>(words, edits, count);
  return launched();
}

int32_t begin_pass(int32_t rows, const int32_t* slot, const int32_t* given_position,
                   const int32_t* given_token, const int32_t* state, int32_t* position,
                   int32_t* token, quern_attention_plan plan, void* stream) {
  if (rows < 0) return invalid;
  begin_pass_kernel<<<1, plan_threads, 0, stream_of(stream)>>>(
      rows, slot, given_position, given_token, state, position, token, plan);
  return launched();
}

int32_t take_rows(int32_t type, int32_t rows, int32_t width, const void* table,
                  const int32_t* index, void* out, void* stream) {
  if (rows < 0 || width < 1) return invalid;
  if (rows == 0) return 0;
  const int64_t bytes = width * bytes_of(type);
  const auto address = reinterpret_cast<uintptr_t>(table) | reinterpret_cast<uintptr_t>(out);
  const auto copy = [&](auto unit) {
    using U = decltype(unit);
    const int units = static_cast<int>(bytes / static_cast<int64_t>(sizeof(U)));
    take_rows_kernel<U><<<rows, copy_threads, 0, stream_of(stream)>>>(
        units, static_cast<const U*>(table), index, static_cast<U*>(out));
    return launched();
  };
  if (bytes % 16 == 0 && address % 16 == 0) return copy(uint4{});
  return bytes % 4 == 0 && address % 4 == 0 ? copy(uint32_t{}) : copy(uint16_t{});
}

int32_t gather_pages(int32_t type, quern_heads shape, quern_pages pages, int32_t sequences,
                     int32_t longest, const int32_t* slot, const int32_t* begin, void* keys,
                     void* values, void* stream) {
  if (sequences < 0 || sequences > 65535 || longest < 0) return invalid;
  if (sequences == 0 || longest == 0) return 0;
  const int64_t bytes = shape.dim * bytes_of(type);
  const auto copy = [&](auto unit) {
    using U = decltype(unit);
    const int units = static_cast<int>(bytes / static_cast<int64_t>(sizeof(U)));
    gather_pages_kernel<U><<<dim3(longest, sequences), copy_threads, 0, stream_of(stream)>>>(
        shape, units, pages, slot, begin, static_cast<U*>(keys), static_cast<U*>(values));
    return launched();
  };
  return bytes % 16 == 0 ? copy(uint4{}) : bytes % 4 == 0 ? copy(uint32_t{}) : copy(uint16_t{});
}

int32_t copy_pages(void* base, int64_t slab_bytes, int32_t slabs, int64_t page_bytes,
                   const int32_t* pairs, int32_t count, void* stream) {
  constexpr int64_t unit = sizeof(uint4);
  if (slab_bytes % unit != 0 || page_bytes % unit != 0 || slabs < 0 || slabs > 65535 || count < 0 ||
      count > 65535)
    return invalid;
  if (slabs == 0 || count == 0) return 0;
  const auto blocks =
      static_cast<unsigned>(std::clamp<int64_t>(page_bytes / unit / copy_threads, 1, 16));
  const dim3 grid(blocks, slabs, count);
  copy_pages_kernel<<<grid, copy_threads, 0, stream_of(stream)>>>(
      static_cast<uint4*>(base), slab_bytes / unit, page_bytes / unit, pairs);
  return launched();
}

}  // namespace quern::policy::device
