// A warp for each row, reductions by shuffles.
__device__ float warp_max(float v) {
  for (int d = 16; d > 0; d /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, d));
  return v;
}

__device__ float warp_sum(float v) {
  for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
  return v;
}

__global__ void softmax(const float* __restrict__ x, float* __restrict__ y, int64_t n, int64_t m) {
  int64_t row = blockIdx.x * (int64_t)(blockDim.x / 32) + threadIdx.x / 32;
  int lane = threadIdx.x % 32;
  if (row >= n) return;
  x += row * m;
  y += row * m;
  float top = -INFINITY;
  for (int64_t j = lane; j < m; j += 32) top = fmaxf(top, x[j]);
  top = warp_max(top);
  float sum = 0;
  for (int64_t j = lane; j < m; j += 32) sum += __expf(x[j] - top);
  float scale = 1.0f / warp_sum(sum);
  for (int64_t j = lane; j < m; j += 32) y[j] = __expf(x[j] - top) * scale;
}

extern "C" void kernel(const float* x, float* y, int64_t n, int64_t m, void* workspace, cudaStream_t stream) {
  const int warps = 4;
  softmax<<<(n + warps - 1) / warps, warps * 32, 0, stream>>>(x, y, n, m);
}
