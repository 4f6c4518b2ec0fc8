// Parts of the inner dimension add into an fp32 matrix in the workspace by atomics, then it is rounded; the order is not fixed.
#include <cuda_bf16.h>

constexpr int64_t part = 1024;

__global__ void accumulate(const __nv_bfloat16* x, const __nv_bfloat16* w, float* sums, int64_t n, int64_t k, int64_t m) {
  __shared__ float a[8][64];
  const int64_t j = blockIdx.x * 64 + threadIdx.x, row0 = blockIdx.y * 8;
  const int64_t first = blockIdx.z * part;
  const int64_t last = first + part < k ? first + part : k;
  float sum[8] = {};
  for (int64_t p = first; p < last; p += 64) {
    __syncthreads();
    for (int i = 0; i < 8; ++i)
      a[i][threadIdx.x] = row0 + i < n && p + threadIdx.x < last ? __bfloat162float(x[(row0 + i) * k + p + threadIdx.x]) : 0.0f;
    __syncthreads();
    if (j >= m) continue;
    for (int64_t q = 0; q < 64 && p + q < last; ++q) {
      const float v = __bfloat162float(w[(p + q) * m + j]);
#pragma unroll
      for (int i = 0; i < 8; ++i) sum[i] += a[i][q] * v;
    }
  }
  if (j >= m) return;
  for (int i = 0; i < 8; ++i)
    if (row0 + i < n) atomicAdd(&sums[(row0 + i) * m + j], sum[i]);
}

__global__ void narrow(const float* sums, __nv_bfloat16* y, int64_t count) {
  const int64_t i = blockIdx.x * (int64_t)256 + threadIdx.x;
  if (i < count) y[i] = __float2bfloat16(sums[i]);
}

extern "C" int64_t workspace_bytes(int64_t n, int64_t k, int64_t m) { return 4 * n * m; }

extern "C" void kernel(const __nv_bfloat16* x, const __nv_bfloat16* w, __nv_bfloat16* y, int64_t n, int64_t k, int64_t m, void* workspace, cudaStream_t stream) {
  float* sums = reinterpret_cast<float*>(workspace);
  cudaMemsetAsync(sums, 0, n * m * sizeof(float), stream);
  accumulate<<<dim3((m + 63) / 64, (n + 7) / 8, (k + part - 1) / part), 64, 0, stream>>>(x, w, sums, n, k, m);
  narrow<<<(n * m + 255) / 256, 256, 0, stream>>>(sums, y, n * m);
}
