// Tensor cores by wmma (the right side is column-major), bias, ReLU and residual on the way out, in fp32.
#include <cuda_bf16.h>
#include <mma.h>

using namespace nvcuda;

constexpr int T = 64, K = 32, LD = K + 16, LDC = T + 4;

__global__ void __launch_bounds__(128) linear(const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ w,
                                              const __nv_bfloat16* __restrict__ b, const __nv_bfloat16* __restrict__ r,
                                              __nv_bfloat16* __restrict__ y, int n, int k, int m) {
  __shared__ __align__(128) __nv_bfloat16 xs[T * LD], ws[T * LD];
  __shared__ __align__(128) float c[T * LDC];
  const int row0 = blockIdx.y * T, column0 = blockIdx.x * T, warp = threadIdx.x / 32;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[4];
  for (int j = 0; j < 4; ++j) wmma::fill_fragment(sum[j], 0.0f);
  const __nv_bfloat16 zero = __float2bfloat16(0.0f);
  for (int p = 0; p < k; p += K) {
    for (int e = threadIdx.x; e < T * K; e += 128) {
      const int i = e / K, q = e % K;
      xs[i * LD + q] = row0 + i < n && p + q < k ? x[(int64_t)(row0 + i) * k + p + q] : zero;
      ws[i * LD + q] = column0 + i < m && p + q < k ? w[(int64_t)(column0 + i) * k + p + q] : zero;
    }
    __syncthreads();
    for (int q = 0; q < K; q += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> a;
      wmma::load_matrix_sync(a, xs + warp * 16 * LD + q, LD);
      for (int j = 0; j < 4; ++j) {
        wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::col_major> f;
        wmma::load_matrix_sync(f, ws + j * 16 * LD + q, LD);
        wmma::mma_sync(sum[j], a, f, sum[j]);
      }
    }
    __syncthreads();
  }
  for (int j = 0; j < 4; ++j) wmma::store_matrix_sync(c + warp * 16 * LDC + j * 16, sum[j], LDC, wmma::mem_row_major);
  __syncthreads();
  for (int e = threadIdx.x; e < T * T; e += 128) {
    const int row = row0 + e / T, column = column0 + e % T;
    if (row >= n || column >= m) continue;
    const float h = fmaxf(c[e / T * LDC + e % T] + __bfloat162float(b[column]), 0.0f);
    const int64_t at = (int64_t)row * m + column;
    y[at] = __float2bfloat16(h + __bfloat162float(r[at]));
  }
}

extern "C" void kernel(const __nv_bfloat16* x, const __nv_bfloat16* w, const __nv_bfloat16* b, const __nv_bfloat16* r, __nv_bfloat16* y, int64_t n, int64_t k, int64_t m, void* workspace, cudaStream_t stream) {
  linear<<<dim3((m + T - 1) / T, (n + T - 1) / T), 128, 0, stream>>>(x, w, b, r, y, n, k, m);
}
