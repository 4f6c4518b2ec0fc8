// 128 positions of 16 filters a block; eight channels' windows and weights in shared memory at a time.
constexpr int positions = 128, filters = 16, channels = 8;

__global__ void __launch_bounds__(positions) conv(const float* __restrict__ x, const float* __restrict__ f, float* __restrict__ y,
                                                  int c, int k, int64_t l) {
  __shared__ float window[channels][positions + 8];
  __shared__ float weights[channels][filters][5];
  const int64_t p0 = blockIdx.x * (int64_t)positions;
  const int k0 = blockIdx.y * filters;
  float sum[filters] = {};
  for (int c0 = 0; c0 < c; c0 += channels) {
    for (int e = threadIdx.x; e < channels * (positions + 8); e += positions) {
      const int s = e / (positions + 8);
      const int64_t p = p0 + e % (positions + 8) - 4;
      window[s][e % (positions + 8)] = c0 + s < c && p >= 0 && p < l ? x[((int64_t)blockIdx.z * c + c0 + s) * l + p] : 0.0f;
    }
    for (int e = threadIdx.x; e < channels * filters * 5; e += positions) {
      const int s = e / (filters * 5), o = e / 5 % filters;
      weights[s][o][e % 5] = c0 + s < c && k0 + o < k ? f[((int64_t)(k0 + o) * c + c0 + s) * 5 + e % 5] : 0.0f;
    }
    __syncthreads();
    for (int s = 0; s < channels; ++s) {
#pragma unroll
      for (int u = 0; u < 5; ++u) {
        const float v = window[s][threadIdx.x + 2 * u];
#pragma unroll
        for (int o = 0; o < filters; ++o) sum[o] = fmaf(v, weights[s][o][u], sum[o]);
      }
    }
    __syncthreads();
  }
  const int64_t p = p0 + threadIdx.x;
  if (p >= l) return;
#pragma unroll
  for (int o = 0; o < filters; ++o)
    if (k0 + o < k) y[((int64_t)blockIdx.z * k + k0 + o) * l + p] = sum[o];
}

extern "C" void kernel(const float* x, const float* f, float* y, int64_t n, int64_t c, int64_t k, int64_t l, void* workspace, cudaStream_t stream) {
  conv<<<dim3((l + positions - 1) / positions, (k + filters - 1) / filters, n), positions, 0, stream>>>(x, f, y, c, k, l);
}
