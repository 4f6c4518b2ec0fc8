// Classic square tiles in shared memory, zeros beyond the edges.
template <int Tile>
__global__ void matmul(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int n, int k, int m) {
  __shared__ float a[Tile][Tile], b[Tile][Tile];
  int i = blockIdx.y * Tile + threadIdx.y;
  int j = blockIdx.x * Tile + threadIdx.x;
  float sum = 0;
  for (int p = 0; p < k; p += Tile) {
    a[threadIdx.y][threadIdx.x] = i < n && p + threadIdx.x < k ? x[(int64_t)i * k + p + threadIdx.x] : 0.0f;
    b[threadIdx.y][threadIdx.x] = j < m && p + threadIdx.y < k ? w[(int64_t)(p + threadIdx.y) * m + j] : 0.0f;
    __syncthreads();
#pragma unroll
    for (int q = 0; q < Tile; ++q) sum = fmaf(a[threadIdx.y][q], b[q][threadIdx.x], sum);
    __syncthreads();
  }
  if (i < n && j < m) y[(int64_t)i * m + j] = sum;
}

extern "C" void kernel(const float* x, const float* w, float* y, int64_t n, int64_t k, int64_t m, void* workspace, cudaStream_t stream) {
  constexpr int tile = 16;
  matmul<tile><<<dim3((m + tile - 1) / tile, (n + tile - 1) / tile), dim3(tile, tile), 0, stream>>>(x, w, y, n, k, m);
}
