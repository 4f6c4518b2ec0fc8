// 32 x 32 tiles of every image through shared memory.
#include <cuda_fp16.h>

__global__ void channels_last(const __half* x, __half* y, int64_t c, int64_t l) {
  __shared__ __half tile[32][34];
  const int64_t s0 = blockIdx.y * 32LL, p0 = blockIdx.x * 32LL;
  x += blockIdx.z * c * l;
  y += blockIdx.z * c * l;
  for (int r = threadIdx.y; r < 32; r += 8)
    if (s0 + r < c && p0 + threadIdx.x < l) tile[r][threadIdx.x] = x[(s0 + r) * l + p0 + threadIdx.x];
  __syncthreads();
  for (int r = threadIdx.y; r < 32; r += 8)
    if (p0 + r < l && s0 + threadIdx.x < c) y[(p0 + r) * c + s0 + threadIdx.x] = tile[threadIdx.x][r];
}

extern "C" void kernel(const __half* x, __half* y, int64_t n, int64_t c, int64_t l, void* workspace, cudaStream_t stream) {
  channels_last<<<dim3((l + 31) / 32, (c + 31) / 32, n), dim3(32, 8), 0, stream>>>(x, y, c, l);
}
