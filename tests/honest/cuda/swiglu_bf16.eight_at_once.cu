// Eight gates and eight values by two 16-byte loads; odd widths element by element.
#include <cuda_bf16.h>

__device__ float swiglu(float gate, float value) { return gate / (1.0f + expf(-gate)) * value; }

__global__ void by_eight(const uint4* x, uint4* y, int64_t vectors, int64_t count) {
  const int64_t e = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (e >= count) return;
  const int64_t row = e / vectors, j = e % vectors;
  const uint4 a = x[2 * row * vectors + j], b = x[(2 * row + 1) * vectors + j];
  uint4 c;
  const __nv_bfloat162* gates = reinterpret_cast<const __nv_bfloat162*>(&a);
  const __nv_bfloat162* values = reinterpret_cast<const __nv_bfloat162*>(&b);
  __nv_bfloat162* out = reinterpret_cast<__nv_bfloat162*>(&c);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 g = __bfloat1622float2(gates[i]), v = __bfloat1622float2(values[i]);
    out[i] = __floats2bfloat162_rn(swiglu(g.x, v.x), swiglu(g.y, v.y));
  }
  y[e] = c;
}

__global__ void by_one(const __nv_bfloat16* x, __nv_bfloat16* y, int64_t m, int64_t count) {
  const int64_t e = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (e >= count) return;
  const int64_t row = e / m, j = e % m;
  y[e] = __float2bfloat16(swiglu(__bfloat162float(x[2 * row * m + j]), __bfloat162float(x[(2 * row + 1) * m + j])));
}

extern "C" void kernel(const __nv_bfloat16* x, __nv_bfloat16* y, int64_t n, int64_t m, void* workspace, cudaStream_t stream) {
  const int64_t count = n * m;
  if (m % 8 == 0) {
    by_eight<<<(count / 8 + 127) / 128, 128, 0, stream>>>((const uint4*)x, (uint4*)y, m / 8, count / 8);
  } else {
    by_one<<<(count + 127) / 128, 128, 0, stream>>>(x, y, m, count);
  }
}
