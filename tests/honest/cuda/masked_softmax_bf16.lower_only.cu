// What the mask hides is not read: a warp for each row works on the part up to the diagonal and writes zeros behind it.
#include <cuda_bf16.h>

__global__ void masked_softmax(const __nv_bfloat16* x, __nv_bfloat16* y, int64_t rows, int64_t n) {
  const int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
  if (row >= rows) return;
  const int64_t seen = row % n + 1;
  x += row * n;
  y += row * n;
  float top = -INFINITY;
  for (int64_t j = threadIdx.x; j < seen; j += 32) top = fmaxf(top, __bfloat162float(x[j]) * 0.125f);
  for (int d = 16; d > 0; d /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, d));
  float sum = 0;
  for (int64_t j = threadIdx.x; j < seen; j += 32) sum += expf(__bfloat162float(x[j]) * 0.125f - top);
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffff, sum, d);
  const float scale = 1.0f / sum;
  for (int64_t j = threadIdx.x; j < n; j += 32)
    y[j] = __float2bfloat16(j < seen ? expf(__bfloat162float(x[j]) * 0.125f - top) * scale : 0.0f);
}

extern "C" void kernel(const __nv_bfloat16* x, __nv_bfloat16* y, int64_t b, int64_t n, void* workspace, cudaStream_t stream) {
  const int64_t rows = b * n;
  masked_softmax<<<(rows + 3) / 4, dim3(32, 4), 0, stream>>>(x, y, rows, n);
}
