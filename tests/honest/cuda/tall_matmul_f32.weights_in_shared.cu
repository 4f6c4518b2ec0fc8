// The small right side stays in dynamic shared memory of persistent blocks; a warp makes one row, a lane its columns.
__global__ void __launch_bounds__(256) tall(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y,
                                            int64_t n, int k, int m) {
  extern __shared__ float weights[];
  for (int e = threadIdx.x; e < k * m; e += 256) weights[e] = w[e];
  __syncthreads();
  const int lane = threadIdx.x % 32;
  for (int64_t i = blockIdx.x * 8 + threadIdx.x / 32; i < n; i += (int64_t)gridDim.x * 8) {
    for (int j0 = 0; j0 < m; j0 += 32) {
      const int j = j0 + lane;
      float sum = 0;
      for (int p0 = 0; p0 < k; p0 += 32) {
        const float mine = p0 + lane < k ? x[i * k + p0 + lane] : 0.0f;
        const int count = min(32, k - p0);
        for (int q = 0; q < count; ++q) {
          const float v = __shfl_sync(0xffffffff, mine, q);
          if (j < m) sum = fmaf(v, weights[(p0 + q) * m + j], sum);
        }
      }
      if (j < m) y[i * m + j] = sum;
    }
  }
}

__global__ void general(const float* x, const float* w, float* y, int64_t n, int64_t k, int64_t m) {
  const int64_t e = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (e >= n * m) return;
  float sum = 0;
  for (int64_t p = 0; p < k; ++p) sum += x[e / m * k + p] * w[p * m + e % m];
  y[e] = sum;
}

extern "C" void kernel(const float* x, const float* w, float* y, int64_t n, int64_t k, int64_t m, void* workspace, cudaStream_t stream) {
  const int64_t bytes = 4 * k * m;
  if (bytes <= 48 * 1024) {
    const int64_t blocks = (n + 7) / 8 < 132 * 4 ? (n + 7) / 8 : 132 * 4;
    tall<<<blocks, 256, bytes, stream>>>(x, w, y, n, k, m);
  } else {
    general<<<(n * m + 127) / 128, 128, 0, stream>>>(x, w, y, n, k, m);
  }
}
