// Product, bias and GELU in one kernel: 64 x 64 tiles, 4 x 4 results a thread.
__device__ float gelu(float h) { return 0.5f * h * (1.0f + erff(h * 0.70710678118654752f)); }

__global__ void __launch_bounds__(256) linear(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ b,
                                              float* __restrict__ y, int n, int k, int m) {
  __shared__ float xs[16][65], ws[16][65];
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  const int row0 = blockIdx.y * 64, column0 = blockIdx.x * 64;
  float sum[4][4] = {};
  for (int p = 0; p < k; p += 16) {
    for (int e = threadIdx.x; e < 64 * 16; e += 256) {
      const int r = e / 16, q = e % 16;
      xs[q][r] = row0 + r < n && p + q < k ? x[(int64_t)(row0 + r) * k + p + q] : 0.0f;
      ws[q][r] = column0 + r < m && p + q < k ? w[(int64_t)(column0 + r) * k + p + q] : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int q = 0; q < 16; ++q) {
      float u[4], v[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        u[i] = xs[q][ty + 16 * i];
        v[i] = ws[q][tx + 16 * i];
      }
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[i][j] = fmaf(u[i], v[j], sum[i][j]);
    }
    __syncthreads();
  }
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) {
      const int row = row0 + ty + 16 * i, column = column0 + tx + 16 * j;
      if (row < n && column < m) y[(int64_t)row * m + column] = gelu(sum[i][j] + b[column]);
    }
}

extern "C" void kernel(const float* x, const float* w, const float* b, float* y, int64_t n, int64_t k, int64_t m, void* workspace, cudaStream_t stream) {
  linear<<<dim3((m + 63) / 64, (n + 63) / 64), 256, 0, stream>>>(x, w, b, y, n, k, m);
}
