// A block for each token: pairs of bf16 where the width is even.
#include <cuda_bf16.h>

__global__ void by_pairs(const __nv_bfloat162* table, const int64_t* ids, const __nv_bfloat162* pos, __nv_bfloat162* y, int64_t n, int64_t pairs) {
  const int64_t token = blockIdx.x;
  const __nv_bfloat162* row = table + ids[token] * pairs;
  const __nv_bfloat162* add = pos + token % n * pairs;
  for (int64_t j = threadIdx.x; j < pairs; j += blockDim.x) {
    const float2 a = __bfloat1622float2(row[j]), b = __bfloat1622float2(add[j]);
    y[token * pairs + j] = __floats2bfloat162_rn(a.x + b.x, a.y + b.y);
  }
}

__global__ void by_elements(const __nv_bfloat16* table, const int64_t* ids, const __nv_bfloat16* pos, __nv_bfloat16* y, int64_t n, int64_t d) {
  const int64_t token = blockIdx.x;
  for (int64_t j = threadIdx.x; j < d; j += blockDim.x)
    y[token * d + j] = __float2bfloat16(__bfloat162float(table[ids[token] * d + j]) + __bfloat162float(pos[token % n * d + j]));
}

extern "C" void kernel(const __nv_bfloat16* table, const int64_t* ids, const __nv_bfloat16* pos, __nv_bfloat16* y, int64_t v, int64_t b, int64_t n, int64_t d, void* workspace, cudaStream_t stream) {
  if (d % 2 == 0) {
    by_pairs<<<b * n, 128, 0, stream>>>((const __nv_bfloat162*)table, ids, (const __nv_bfloat162*)pos, (__nv_bfloat162*)y, n, d / 2);
  } else {
    by_elements<<<b * n, 128, 0, stream>>>(table, ids, pos, y, n, d);
  }
}
