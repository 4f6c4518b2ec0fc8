// A thread turns one pair: both halves are read and written by it.
#include <cuda_bf16.h>

__global__ void rotate(const __nv_bfloat16* x, const __nv_bfloat16* c, const __nv_bfloat16* s, __nv_bfloat16* y, int64_t n, int64_t h, int64_t d, int64_t count) {
  const int64_t e = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (e >= count) return;
  const int64_t j = e % d, row = e / d, i = row / h % n;
  const float cosine = __bfloat162float(c[i * d + j]), sine = __bfloat162float(s[i * d + j]);
  const float a = __bfloat162float(x[row * 2 * d + j]), b = __bfloat162float(x[row * 2 * d + d + j]);
  y[row * 2 * d + j] = __float2bfloat16(a * cosine - b * sine);
  y[row * 2 * d + d + j] = __float2bfloat16(b * cosine + a * sine);
}

extern "C" void kernel(const __nv_bfloat16* x, const __nv_bfloat16* c, const __nv_bfloat16* s, __nv_bfloat16* y, int64_t b, int64_t n, int64_t h, int64_t d, void* workspace, cudaStream_t stream) {
  const int64_t count = b * n * h * d;
  rotate<<<(count + 255) / 256, 256, 0, stream>>>(x, c, s, y, n, h, d, count);
}
