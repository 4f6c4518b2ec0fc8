// 16 x 16 results from a 33 x 33 tile in shared memory, -infinity beyond the edges.
#define OUT 16
#define IN (2 * OUT + 1)

__device__ __forceinline__ float larger(float a, float b) {
  if (isnan(a)) return a;
  return isnan(b) || b > a ? b : a;
}

__global__ void max_pool(const float* x, float* y, int h, int w, int oh, int ow, int tiles_h) {
  __shared__ float tile[IN][IN + 2];
  const int64_t image = blockIdx.x / tiles_h;
  const int i0 = blockIdx.x % tiles_h * OUT, j0 = blockIdx.y * OUT;
  x += image * h * w;
  for (int e = threadIdx.y * OUT + threadIdx.x; e < IN * IN; e += OUT * OUT) {
    const int r = e / IN, c = e % IN;
    const int i = 2 * i0 - 1 + r, j = 2 * j0 - 1 + c;
    tile[r][c] = i >= 0 && i < h && j >= 0 && j < w ? x[(int64_t)i * w + j] : -INFINITY;
  }
  __syncthreads();
  const int i = i0 + threadIdx.y, j = j0 + threadIdx.x;
  if (i >= oh || j >= ow) return;
  float best = -INFINITY;
#pragma unroll
  for (int r = 0; r < 3; ++r)
#pragma unroll
    for (int c = 0; c < 3; ++c) best = larger(best, tile[2 * threadIdx.y + r][2 * threadIdx.x + c]);
  y[(image * oh + i) * ow + j] = best;
}

extern "C" void kernel(const float* x, float* y, int64_t n, int64_t c, int64_t h, int64_t w, void* workspace, cudaStream_t stream) {
  const int64_t oh = (h - 1) / 2 + 1, ow = (w - 1) / 2 + 1;
  const int64_t tiles_h = (oh + OUT - 1) / OUT, tiles_w = (ow + OUT - 1) / OUT;
  max_pool<<<dim3(n * c * tiles_h, tiles_w), dim3(OUT, OUT), 0, stream>>>(x, y, h, w, oh, ow, tiles_h);
}
