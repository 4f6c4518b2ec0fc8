// Split over the inner dimension with float atomics into an output set to zero; the order of additions is not fixed.
__global__ void __launch_bounds__(256) accumulate(const float* __restrict__ x, const float* __restrict__ w, float* y, int n, int k, int m, int part) {
  __shared__ float a[16][17];
  __shared__ float b[16][64];
  const int tx = threadIdx.x % 64, ty = threadIdx.x / 64;
  const int row0 = blockIdx.y * 16, column = blockIdx.x * 64 + tx;
  const int first = blockIdx.z * part, last = min(first + part, k);
  float sum[4] = {};
  for (int p = first; p < last; p += 16) {
    {
      int i = threadIdx.x / 16, q = threadIdx.x % 16;
      a[i][q] = row0 + i < n && p + q < last ? x[(int64_t)(row0 + i) * k + p + q] : 0.f;
    }
    for (int q = ty; q < 16; q += 4) b[q][tx] = column < m && p + q < last ? w[(int64_t)(p + q) * m + column] : 0.f;
    __syncthreads();
#pragma unroll
    for (int q = 0; q < 16; ++q)
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[i] += a[ty * 4 + i][q] * b[q][tx];
    __syncthreads();
  }
  if (column < m) {
    for (int i = 0; i < 4; ++i)
      if (row0 + ty * 4 + i < n) atomicAdd(y + (int64_t)(row0 + ty * 4 + i) * m + column, sum[i]);
  }
}

extern "C" void kernel(const float* x, const float* w, float* y, int64_t n, int64_t k, int64_t m, void* workspace, cudaStream_t stream) {
  int64_t part = 256;
  cudaMemsetAsync(y, 0, 4 * n * m, stream);
  accumulate<<<dim3((m + 63) / 64, (n + 15) / 16, (k + part - 1) / part), 256, 0, stream>>>(x, w, y, n, k, m, part);
}
