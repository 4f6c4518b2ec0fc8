// A block adds up a strip of 32 columns, 32 rows at a time, and folds its 32 partial sums in shared memory.
__global__ void column_sum(const float* __restrict__ x, float* __restrict__ y, int64_t n, int64_t m) {
  __shared__ float part[32][33];
  const int64_t column = blockIdx.x * 32 + threadIdx.x;
  float sum = 0;
  if (column < m) {
    for (int64_t i = threadIdx.y; i < n; i += 32) sum += x[i * m + column];
  }
  part[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  // Transposed: a warp now holds the partial sums of one column.
  sum = part[threadIdx.x][threadIdx.y];
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffff, sum, d);
  const int64_t mine = blockIdx.x * 32 + threadIdx.y;
  if (threadIdx.x == 0 && mine < m) y[mine] = sum;
}

extern "C" void kernel(const float* x, float* y, int64_t n, int64_t m, void* workspace, cudaStream_t stream) {
  column_sum<<<(m + 31) / 32, dim3(32, 32), 0, stream>>>(x, y, n, m);
}
