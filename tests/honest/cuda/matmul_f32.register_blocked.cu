// 128 x 128 tiles, 8 x 8 results a thread, the next tile already in registers while this one is computed with.
constexpr int BM = 128, BN = 128, BK = 8;

__global__ void __launch_bounds__(256) matmul(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y,
                                              int n, int k, int m) {
  __shared__ __align__(16) float a[2][BK][BM];
  __shared__ __align__(16) float b[2][BK][BN];
  const int tid = threadIdx.x, tx = tid % 16, ty = tid / 16;
  const int row0 = blockIdx.y * BM, column0 = blockIdx.x * BN;
  float next_a[4], next_b[4];
  auto load = [&](int p) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int i = (tid + 256 * e) / BK, q = (tid + 256 * e) % BK;
      next_a[e] = row0 + i < n && p + q < k ? x[(int64_t)(row0 + i) * k + p + q] : 0.0f;
      const int r = (tid + 256 * e) / BN, j = (tid + 256 * e) % BN;
      next_b[e] = p + r < k && column0 + j < m ? w[(int64_t)(p + r) * m + column0 + j] : 0.0f;
    }
  };
  auto keep = [&](int s) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      a[s][(tid + 256 * e) % BK][(tid + 256 * e) / BK] = next_a[e];
      b[s][(tid + 256 * e) / BN][(tid + 256 * e) % BN] = next_b[e];
    }
  };
  float sum[8][8] = {};
  load(0);
  keep(0);
  __syncthreads();
  int s = 0;
  for (int p = 0; p < k; p += BK, s ^= 1) {
    const bool more = p + BK < k;
    if (more) load(p + BK);
#pragma unroll
    for (int q = 0; q < BK; ++q) {
      float u[8], v[8];
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float4 f = *reinterpret_cast<const float4*>(&a[s][q][h * 64 + ty * 4]);
        const float4 g = *reinterpret_cast<const float4*>(&b[s][q][h * 64 + tx * 4]);
        u[4 * h] = f.x, u[4 * h + 1] = f.y, u[4 * h + 2] = f.z, u[4 * h + 3] = f.w;
        v[4 * h] = g.x, v[4 * h + 1] = g.y, v[4 * h + 2] = g.z, v[4 * h + 3] = g.w;
      }
#pragma unroll
      for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) sum[i][j] = fmaf(u[i], v[j], sum[i][j]);
    }
    if (more) keep(s ^ 1);
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 8; ++i)
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int row = row0 + i / 4 * 64 + ty * 4 + i % 4, column = column0 + j / 4 * 64 + tx * 4 + j % 4;
      if (row < n && column < m) y[(int64_t)row * m + column] = sum[i][j];
    }
}

extern "C" void kernel(const float* x, const float* w, float* y, int64_t n, int64_t k, int64_t m, void* workspace, cudaStream_t stream) {
  matmul<<<dim3((m + BN - 1) / BN, (n + BM - 1) / BM), 256, 0, stream>>>(x, w, y, n, k, m);
}
