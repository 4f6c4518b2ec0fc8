// 64 x 64 tiles, 4 x 4 results in the registers of each thread, the left tile kept transposed.
#define BM 64
#define BN 64
#define BK 16

__global__ void __launch_bounds__(256) matmul(const float* __restrict__ x, const float* __restrict__ w,
                                              float* __restrict__ y, int n, int k, int m) {
  __shared__ __align__(16) float a[BK][BM + 4];
  __shared__ __align__(16) float b[BK][BN];
  const int tid = threadIdx.x, tx = tid % 16, ty = tid / 16;
  const int row0 = blockIdx.y * BM, column0 = blockIdx.x * BN;
  float sum[4][4] = {};
  for (int p = 0; p < k; p += BK) {
    for (int e = tid; e < BM * BK; e += 256) {
      int i = e / BK, q = e % BK;
      a[q][i] = row0 + i < n && p + q < k ? x[(int64_t)(row0 + i) * k + p + q] : 0.0f;
    }
    for (int e = tid; e < BN * BK; e += 256) {
      int q = e / BN, j = e % BN;
      b[q][j] = column0 + j < m && p + q < k ? w[(int64_t)(p + q) * m + column0 + j] : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int q = 0; q < BK; ++q) {
      const float4 u = *reinterpret_cast<const float4*>(&a[q][4 * ty]);
      const float4 v = *reinterpret_cast<const float4*>(&b[q][4 * tx]);
      const float us[4] = {u.x, u.y, u.z, u.w};
      const float vs[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[i][j] = fmaf(us[i], vs[j], sum[i][j]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (row0 + 4 * ty + i < n && column0 + 4 * tx + j < m)
        y[(int64_t)(row0 + 4 * ty + i) * m + column0 + 4 * tx + j] = sum[i][j];
}

extern "C" void kernel(const float* x, const float* w, float* y, int64_t n, int64_t k, int64_t m, void* workspace, cudaStream_t stream) {
  matmul<<<dim3((m + BN - 1) / BN, (n + BM - 1) / BM), 256, 0, stream>>>(x, w, y, n, k, m);
}
