// 64 x 64 tiles with 16-byte loads and stores where both sides are multiples of 64; 16 x 16 tiles otherwise.
__global__ void __launch_bounds__(256) large_tiles(const float* __restrict__ x, float* __restrict__ y, int n, int m) {
  __shared__ float tile[64][65];
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  const int row0 = blockIdx.y * 64, column0 = blockIdx.x * 64;
#pragma unroll
  for (int r = ty; r < 64; r += 16) {
    const float4 v = *reinterpret_cast<const float4*>(x + (int64_t)(row0 + r) * m + column0 + 4 * tx);
    tile[r][4 * tx] = v.x;
    tile[r][4 * tx + 1] = v.y;
    tile[r][4 * tx + 2] = v.z;
    tile[r][4 * tx + 3] = v.w;
  }
  __syncthreads();
#pragma unroll
  for (int r = ty; r < 64; r += 16) {
    const float4 v = make_float4(tile[4 * tx][r], tile[4 * tx + 1][r], tile[4 * tx + 2][r], tile[4 * tx + 3][r]);
    *reinterpret_cast<float4*>(y + (int64_t)(column0 + r) * n + row0 + 4 * tx) = v;
  }
}

__global__ void small_tiles(const float* x, float* y, int n, int m) {
  __shared__ float tile[16][17];
  int i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
  if (i < n && j < m) tile[threadIdx.y][threadIdx.x] = x[(int64_t)i * m + j];
  __syncthreads();
  i = blockIdx.y * 16 + threadIdx.x;
  j = blockIdx.x * 16 + threadIdx.y;
  if (i < n && j < m) y[(int64_t)j * n + i] = tile[threadIdx.x][threadIdx.y];
}

extern "C" void kernel(const float* x, float* y, int64_t n, int64_t m, void* workspace, cudaStream_t stream) {
  if (n % 64 == 0 && m % 64 == 0)
    large_tiles<<<dim3(m / 64, n / 64), 256, 0, stream>>>(x, y, n, m);
  else
    small_tiles<<<dim3((m + 15) / 16, (n + 15) / 16), dim3(16, 16), 0, stream>>>(x, y, n, m);
}
