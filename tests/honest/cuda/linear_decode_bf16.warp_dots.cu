// A warp for each row of the weights, read once by 16 bytes and multiplied with up to eight inputs at a time.
#include <cuda_bf16.h>

constexpr int batch = 8;

__device__ float dot8(uint4 a, uint4 b) {
  const __nv_bfloat162* u = reinterpret_cast<const __nv_bfloat162*>(&a);
  const __nv_bfloat162* v = reinterpret_cast<const __nv_bfloat162*>(&b);
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 f = __bfloat1622float2(u[i]), g = __bfloat1622float2(v[i]);
    sum = fmaf(f.x, g.x, sum);
    sum = fmaf(f.y, g.y, sum);
  }
  return sum;
}

__global__ void __launch_bounds__(128) decode(const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ w,
                                              __nv_bfloat16* __restrict__ y, int64_t first, int count, int64_t n, int64_t k) {
  const int64_t row = blockIdx.x * (int64_t)4 + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (row >= n) return;
  x += first * k;
  w += row * k;
  float sum[batch] = {};
  if (k % 8 == 0) {
    for (int64_t p = lane * 8; p < k; p += 256) {
      const uint4 v = *reinterpret_cast<const uint4*>(w + p);
#pragma unroll
      for (int i = 0; i < batch; ++i)
        if (i < count) sum[i] += dot8(v, *reinterpret_cast<const uint4*>(x + i * k + p));
    }
  } else {
    for (int64_t p = lane; p < k; p += 32) {
      const float v = __bfloat162float(w[p]);
#pragma unroll
      for (int i = 0; i < batch; ++i)
        if (i < count) sum[i] = fmaf(v, __bfloat162float(x[i * k + p]), sum[i]);
    }
  }
#pragma unroll
  for (int i = 0; i < batch; ++i) {
    for (int d = 16; d > 0; d /= 2) sum[i] += __shfl_xor_sync(0xffffffff, sum[i], d);
    if (i < count && lane == 0) y[(first + i) * n + row] = __float2bfloat16(sum[i]);
  }
}

extern "C" void kernel(const __nv_bfloat16* x, const __nv_bfloat16* w, __nv_bfloat16* y, int64_t b, int64_t n, int64_t k, void* workspace, cudaStream_t stream) {
  for (int64_t first = 0; first < b; first += batch) {
    const int64_t count = b - first < batch ? b - first : batch;
    decode<<<(n + 3) / 4, 128, 0, stream>>>(x, w, y, first, count, n, k);
  }
}
