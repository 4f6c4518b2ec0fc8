// A block for each row, a thousand elements at a time: scans within warps, then over warps, and a carry.
constexpr int threads = 256;
constexpr int each = 4;

__global__ void __launch_bounds__(threads) scan(const float* x, float* y, int64_t m) {
  __shared__ float sums[threads / 32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  x += blockIdx.x * m;
  y += blockIdx.x * m;
  float carry = 0;
  for (int64_t base = 0; base < m; base += threads * each) {
    const int64_t first = base + threadIdx.x * each;
    float v[each];
#pragma unroll
    for (int e = 0; e < each; ++e) {
      v[e] = first + e < m ? x[first + e] : 0.0f;
      if (e > 0) v[e] += v[e - 1];
    }
    float upto = v[each - 1];
    for (int d = 1; d < 32; d *= 2) {
      float other = __shfl_up_sync(0xffffffff, upto, d);
      if (lane >= d) upto += other;
    }
    if (lane == 31) sums[warp] = upto;
    float left = __shfl_up_sync(0xffffffff, upto, 1);
    if (lane == 0) left = 0;
    __syncthreads();
    float warps_before = 0, total = 0;
    for (int w = 0; w < threads / 32; ++w) {
      if (w == warp) warps_before = total;
      total += sums[w];
    }
#pragma unroll
    for (int e = 0; e < each; ++e)
      if (first + e < m) y[first + e] = carry + (warps_before + (left + v[e]));
    carry += total;
    __syncthreads();
  }
}

extern "C" void kernel(const float* x, float* y, int64_t n, int64_t m, void* workspace, cudaStream_t stream) {
  scan<<<n, threads, 0, stream>>>(x, y, m);
}
