// One grid layer for each batch, 32 x 64 tiles, 2 x 4 results a thread.
__global__ void __launch_bounds__(256) bmm(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y,
                                           int n, int k, int m) {
  __shared__ float a[32][17], b[16][64];
  x += (int64_t)blockIdx.z * n * k;
  w += (int64_t)blockIdx.z * k * m;
  y += (int64_t)blockIdx.z * n * m;
  const int row0 = blockIdx.y * 32, column0 = blockIdx.x * 64;
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  float sum[2][4] = {};
  for (int p = 0; p < k; p += 16) {
    for (int e = threadIdx.x; e < 32 * 16; e += 256)
      a[e / 16][e % 16] = row0 + e / 16 < n && p + e % 16 < k ? x[(int64_t)(row0 + e / 16) * k + p + e % 16] : 0.0f;
    for (int e = threadIdx.x; e < 16 * 64; e += 256)
      b[e / 64][e % 64] = p + e / 64 < k && column0 + e % 64 < m ? w[(int64_t)(p + e / 64) * m + column0 + e % 64] : 0.0f;
    __syncthreads();
#pragma unroll
    for (int q = 0; q < 16; ++q)
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[i][j] += a[ty + 16 * i][q] * b[q][tx + 16 * j];
    __syncthreads();
  }
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 4; ++j) {
      const int row = row0 + ty + 16 * i, column = column0 + tx + 16 * j;
      if (row < n && column < m) y[(int64_t)row * m + column] = sum[i][j];
    }
}

extern "C" void kernel(const float* x, const float* w, float* y, int64_t b, int64_t n, int64_t k, int64_t m, void* workspace, cudaStream_t stream) {
  bmm<<<dim3((m + 63) / 64, (n + 31) / 32, b), 256, 0, stream>>>(x, w, y, n, k, m);
}
