// Only tiles on and below the diagonal are computed, and for each only the inner range where both factors are not zero.
constexpr int tile = 32;

__global__ void __launch_bounds__(256) lower(const float* x, const float* w, float* y, int64_t n) {
  __shared__ float a[tile][tile + 1], b[tile][tile + 1];
  const int64_t row0 = blockIdx.y * (int64_t)tile, column0 = blockIdx.x * (int64_t)tile;
  const int tx = threadIdx.x % tile, ty = threadIdx.x / tile;
  float sum[4] = {};
  // x[i, p] is zero for p > i, w[p, j] for p < j: what is left is j <= p <= i.
  for (int64_t p = column0; p < row0 + tile && p < n; p += tile) {
    for (int r = ty; r < tile; r += 8) {
      const int64_t i = row0 + r, q = p + tx;
      a[r][tx] = i < n && q <= i ? x[i * n + q] : 0.0f;
      b[r][tx] = p + r < n && column0 + tx <= p + r ? w[(p + r) * n + column0 + tx] : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int q = 0; q < tile; ++q)
#pragma unroll
      for (int r = 0; r < 4; ++r) sum[r] = fmaf(a[ty + 8 * r][q], b[q][tx], sum[r]);
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int64_t i = row0 + ty + 8 * r, j = column0 + tx;
    if (i < n && j < n) y[i * n + j] = j <= i ? sum[r] : 0.0f;
  }
}

extern "C" void kernel(const float* x, const float* w, float* y, int64_t n, void* workspace, cudaStream_t stream) {
  const int64_t tiles = (n + tile - 1) / tile;
  lower<<<dim3(tiles, tiles), 256, 0, stream>>>(x, w, y, n);
}
