// A warp for each row: p (log p - log q), nothing where p is zero.
__global__ void kl(const float* __restrict__ logq, const float* __restrict__ p, float* __restrict__ y, int64_t n, int64_t m) {
  const int64_t row = blockIdx.x * (int64_t)blockDim.y + threadIdx.y;
  if (row >= n) return;
  float sum = 0;
  for (int64_t j = threadIdx.x; j < m; j += 32) {
    const float v = p[row * m + j];
    if (v > 0) sum += v * (logf(v) - logq[row * m + j]);
  }
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffff, sum, d);
  if (threadIdx.x == 0) y[row] = sum;
}

extern "C" void kernel(const float* logq, const float* p, float* y, int64_t n, int64_t m, void* workspace, cudaStream_t stream) {
  kl<<<(n + 7) / 8, dim3(32, 8), 0, stream>>>(logq, p, y, n, m);
}
