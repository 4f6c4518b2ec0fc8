// Two launches: maximum and sum of each row into the workspace, then an elementwise pass over the whole tensor.
__global__ void statistics(const float* x, float2* stats, int64_t m) {
  __shared__ float tops[8], sums[8];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const float* row = x + blockIdx.x * m;
  float top = -3.402823466e+38f;
  for (int64_t j = threadIdx.x; j < m; j += blockDim.x) top = fmaxf(top, row[j]);
  for (int d = 16; d; d >>= 1) top = fmaxf(top, __shfl_down_sync(0xffffffff, top, d));
  if (lane == 0) tops[warp] = top;
  __syncthreads();
  top = tops[0];
  for (int w = 1; w < 8; ++w) top = fmaxf(top, tops[w]);
  float sum = 0;
  for (int64_t j = threadIdx.x; j < m; j += blockDim.x) sum += expf(row[j] - top);
  for (int d = 16; d; d >>= 1) sum += __shfl_down_sync(0xffffffff, sum, d);
  if (lane == 0) sums[warp] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    sum = 0;
    for (int w = 0; w < 8; ++w) sum += sums[w];
    stats[blockIdx.x] = make_float2(top, 1.0f / sum);
  }
}

__global__ void normalise(const float* x, const float2* stats, float* y, int64_t n, int64_t m) {
  const int64_t step = (int64_t)gridDim.x * blockDim.x;
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n * m; i += step) {
    float2 s = stats[i / m];
    y[i] = expf(x[i] - s.x) * s.y;
  }
}

extern "C" int64_t workspace_bytes(int64_t n, int64_t m) { return n * 8; }

extern "C" void kernel(const float* x, float* y, int64_t n, int64_t m, void* workspace, cudaStream_t stream) {
  float2* stats = (float2*)workspace;
  statistics<<<n, 256, 0, stream>>>(x, stats, m);
  int64_t blocks = (n * m + 255) / 256;
  if (blocks > 132 * 16) blocks = 132 * 16;
  normalise<<<blocks, 256, 0, stream>>>(x, stats, y, n, m);
}
