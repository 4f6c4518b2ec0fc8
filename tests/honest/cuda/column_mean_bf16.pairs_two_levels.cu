// Pairs of columns a thread, slabs of rows to the workspace in fp32, then a fold; the last column of odd widths alone.
#include <cuda_bf16.h>

constexpr int64_t rows_each = 256;
constexpr int64_t slabs_of(int64_t n) { return (n + rows_each - 1) / rows_each; }

__global__ void slab_pairs(const __nv_bfloat162* x, float2* parts, int64_t n, int64_t pairs) {
  const int64_t j = blockIdx.x * 128LL + threadIdx.x;
  if (j >= pairs) return;
  const int64_t first = blockIdx.y * rows_each, last = first + rows_each < n ? first + rows_each : n;
  float2 sum = make_float2(0, 0);
#pragma unroll 4
  for (int64_t i = first; i < last; ++i) {
    const float2 v = __bfloat1622float2(x[i * pairs + j]);
    sum.x += v.x;
    sum.y += v.y;
  }
  parts[blockIdx.y * pairs + j] = sum;
}

__global__ void slab_single(const __nv_bfloat16* x, float* parts, int64_t n, int64_t m) {
  const int64_t j = blockIdx.x * 128LL + threadIdx.x;
  if (j >= m) return;
  const int64_t first = blockIdx.y * rows_each, last = first + rows_each < n ? first + rows_each : n;
  float sum = 0;
  for (int64_t i = first; i < last; ++i) sum += __bfloat162float(x[i * m + j]);
  parts[blockIdx.y * m + j] = sum;
}

__global__ void fold(const float* parts, __nv_bfloat16* y, int64_t n, int64_t m, int64_t slabs) {
  const int64_t j = blockIdx.x * 128LL + threadIdx.x;
  if (j >= m) return;
  float sum = 0;
  for (int64_t s = 0; s < slabs; ++s) sum += parts[s * m + j];
  y[j] = __float2bfloat16(sum / n);
}

extern "C" int64_t workspace_bytes(int64_t n, int64_t m) { return slabs_of(n) * m * 4; }

extern "C" void kernel(const __nv_bfloat16* x, __nv_bfloat16* y, int64_t n, int64_t m, void* workspace, cudaStream_t stream) {
  const int64_t slabs = slabs_of(n);
  if (m % 2 == 0)
    slab_pairs<<<dim3((m / 2 + 127) / 128, slabs), 128, 0, stream>>>((const __nv_bfloat162*)x, (float2*)workspace, n, m / 2);
  else
    slab_single<<<dim3((m + 127) / 128, slabs), 128, 0, stream>>>(x, (float*)workspace, n, m);
  fold<<<(m + 127) / 128, 128, 0, stream>>>((const float*)workspace, y, n, m, slabs);
}
