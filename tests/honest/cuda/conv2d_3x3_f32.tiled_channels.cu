// A block makes 8 x 32 positions of eight filters; input tiles with their borders and the filters come channel by channel.
constexpr int TH = 8, TW = 32, FILTERS = 8;

__global__ void __launch_bounds__(TH * TW) conv(const float* __restrict__ x, const float* __restrict__ f, float* __restrict__ y,
                                                int c, int k, int h, int w, int tiles_w) {
  __shared__ float tile[TH + 2][TW + 2];
  __shared__ float weights[FILTERS][9];
  const int tx = threadIdx.x % TW, ty = threadIdx.x / TW;
  const int i0 = blockIdx.x / tiles_w * TH, j0 = blockIdx.x % tiles_w * TW, k0 = blockIdx.y * FILTERS;
  const int64_t image = blockIdx.z;
  float sum[FILTERS] = {};
  for (int s = 0; s < c; ++s) {
    const float* plane = x + (image * c + s) * h * w;
    for (int e = threadIdx.x; e < (TH + 2) * (TW + 2); e += TH * TW) {
      const int i = i0 + e / (TW + 2) - 1, j = j0 + e % (TW + 2) - 1;
      tile[e / (TW + 2)][e % (TW + 2)] = i >= 0 && i < h && j >= 0 && j < w ? plane[(int64_t)i * w + j] : 0.0f;
    }
    if (threadIdx.x < FILTERS * 9) {
      const int o = k0 + threadIdx.x / 9;
      weights[threadIdx.x / 9][threadIdx.x % 9] = o < k ? f[((int64_t)o * c + s) * 9 + threadIdx.x % 9] : 0.0f;
    }
    __syncthreads();
    float v[9];
#pragma unroll
    for (int u = 0; u < 9; ++u) v[u] = tile[ty + u / 3][tx + u % 3];
#pragma unroll
    for (int o = 0; o < FILTERS; ++o)
#pragma unroll
      for (int u = 0; u < 9; ++u) sum[o] = fmaf(v[u], weights[o][u], sum[o]);
    __syncthreads();
  }
  const int i = i0 + ty, j = j0 + tx;
  if (i >= h || j >= w) return;
#pragma unroll
  for (int o = 0; o < FILTERS; ++o)
    if (k0 + o < k) y[((image * k + k0 + o) * h + i) * w + j] = sum[o];
}

extern "C" void kernel(const float* x, const float* f, float* y, int64_t n, int64_t c, int64_t k, int64_t h, int64_t w, void* workspace, cudaStream_t stream) {
  const int64_t tiles_h = (h + TH - 1) / TH, tiles_w = (w + TW - 1) / TW;
  conv<<<dim3(tiles_h * tiles_w, (k + FILTERS - 1) / FILTERS, n), TH * TW, 0, stream>>>(x, f, y, c, k, h, w, tiles_w);
}
