// 32 x 32 tiles through shared memory, padded by a column against bank conflicts.
#define TILE 32
#define ROWS 8

__global__ void transpose(const float* __restrict__ x, float* __restrict__ y, int n, int m) {
  __shared__ float tile[TILE][TILE + 1];
  int column = blockIdx.x * TILE + threadIdx.x;
  int row = blockIdx.y * TILE + threadIdx.y;
#pragma unroll
  for (int r = 0; r < TILE; r += ROWS)
    if (row + r < n && column < m) tile[threadIdx.y + r][threadIdx.x] = x[(int64_t)(row + r) * m + column];
  __syncthreads();
  column = blockIdx.y * TILE + threadIdx.x;
  row = blockIdx.x * TILE + threadIdx.y;
#pragma unroll
  for (int r = 0; r < TILE; r += ROWS)
    if (row + r < m && column < n) y[(int64_t)(row + r) * n + column] = tile[threadIdx.x][threadIdx.y + r];
}

extern "C" void kernel(const float* x, float* y, int64_t n, int64_t m, void* workspace, cudaStream_t stream) {
  dim3 grid((m + TILE - 1) / TILE, (n + TILE - 1) / TILE);
  transpose<<<grid, dim3(TILE, ROWS), 0, stream>>>(x, y, n, m);
}
