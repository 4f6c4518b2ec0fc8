// Cooperative groups: tiles of sixteen lanes, one row each.
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

__global__ void hinge(const float* x, const float* t, float* y, int64_t n, int64_t m) {
  auto tile = cg::tiled_partition<16>(cg::this_thread_block());
  const int64_t row = blockIdx.x * (int64_t)tile.meta_group_size() + tile.meta_group_rank();
  if (row >= n) return;
  float sum = 0;
  for (int64_t j = tile.thread_rank(); j < m; j += 16) sum += fmaxf(1.0f - x[row * m + j] * t[row * m + j], 0.0f);
  for (int d = 8; d > 0; d /= 2) sum += tile.shfl_down(sum, d);
  if (tile.thread_rank() == 0) y[row] = sum / m;
}

extern "C" void kernel(const float* x, const float* t, float* y, int64_t n, int64_t m, void* workspace, cudaStream_t stream) {
  hinge<<<(n + 15) / 16, 256, 0, stream>>>(x, t, y, n, m);
}
