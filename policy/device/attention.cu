// Attention over pages on tensor cores where elements and shape allow it, else plainly.
#include <algorithm>
#include <cmath>

#include "policy/device/attention_kernel.cuh"
#include "policy/device/common.cuh"
#include "policy/device/functions.hpp"

namespace quern::policy::device {
namespace {

constexpr int most_members = 2 * tile_heads;  // of a group

/// Blocks that fill the device, a few for each multiprocessor; more find no work.
template <int dim, int head_tiles>
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
            &blocks, paged_attention_kernel<dim, head_tiles>, attention_threads, 0);
        code != cudaSuccess)
      return code;
    resident = std::max(1, processors * blocks);
  }
  const int64_t most =
      static_cast<int64_t>(a.rows.count) * a.shape.kv_heads *
      ((static_cast<int64_t>(a.pages.table_width) * a.pages.page + quern_split - 1) / quern_split);
  const auto blocks = static_cast<int>(std::min<int64_t>(most, resident));
  paged_attention_kernel<dim, head_tiles><<<blocks, attention_threads, 0, stream>>>(a);
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
    if (shape.group <= tile_heads)
      return shape.dim == 64 ? split_attention<64, 1>(a, stream_of(stream))
                             : split_attention<128, 1>(a, stream_of(stream));
    return shape.dim == 64 ? split_attention<64, 2>(a, stream_of(stream))
                           : split_attention<128, 2>(a, stream_of(stream));
  }
  return plain_attention(type, shape, rows, pages, q, out, scale, stream);
}

}  // namespace quern::policy::device
