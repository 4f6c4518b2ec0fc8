// Sums of differences from the row's first element and of their squares: one pass that does not cancel.
__global__ void __launch_bounds__(256) moments(const float* x, float* var, float* mean, int64_t m) {
  __shared__ float2 warps[8];
  const float* row = x + blockIdx.x * m;
  const float shift = row[0];
  float a = 0, b = 0;
  for (int64_t j = threadIdx.x; j < m; j += 256) {
    const float d = row[j] - shift;
    a += d;
    b = fmaf(d, d, b);
  }
  for (int s = 16; s > 0; s /= 2) {
    a += __shfl_xor_sync(0xffffffff, a, s);
    b += __shfl_xor_sync(0xffffffff, b, s);
  }
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = make_float2(a, b);
  __syncthreads();
  if (threadIdx.x == 0) {
    a = b = 0;
    for (int w = 0; w < 8; ++w) {
      a += warps[w].x;
      b += warps[w].y;
    }
    const float middle = a / m;
    mean[blockIdx.x] = shift + middle;
    var[blockIdx.x] = fmaxf(b / m - middle * middle, 0.0f);
  }
}

extern "C" void kernel(const float* x, float* var, float* mean, int64_t n, int64_t m, void* workspace, cudaStream_t stream) {
  moments<<<n, 256, 0, stream>>>(x, var, mean, m);
}
