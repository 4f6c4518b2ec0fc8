// A warp for each row, 32 elements at a time, the carry taken from the last lane.
__global__ void scan(const float* __restrict__ x, float* __restrict__ y, int64_t n, int64_t m) {
  const int64_t row = (blockIdx.x * (int64_t)blockDim.x + threadIdx.x) / 32;
  const int lane = threadIdx.x & 31;
  if (row >= n) return;
  float carry = 0;
  for (int64_t base = 0; base < m; base += 32) {
    float v = base + lane < m ? x[row * m + base + lane] : 0.0f;
#pragma unroll
    for (int d = 1; d < 32; d <<= 1) {
      float left = __shfl_up_sync(0xffffffffu, v, d);
      v += lane >= d ? left : 0.0f;
    }
    v += carry;
    if (base + lane < m) y[row * m + base + lane] = v;
    carry = __shfl_sync(0xffffffffu, v, 31);
  }
}

extern "C" void kernel(const float* x, float* y, int64_t n, int64_t m, void* workspace, cudaStream_t stream) {
  scan<<<(n * 32 + 127) / 128, 128, 0, stream>>>(x, y, n, m);
}
