// Tensor cores through nvcuda::wmma; tiles with zeros beyond the edges, results leave through shared memory.
#include <cuda_bf16.h>
#include <mma.h>

using namespace nvcuda;

constexpr int BM = 64, BN = 64, BK = 32;
constexpr int LDA = BK + 16, LDB = BN + 16, LDC = BN + 8;

__global__ void __launch_bounds__(128) matmul(const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ w,
                                              __nv_bfloat16* __restrict__ y, int n, int k, int m) {
  __shared__ __align__(128) __nv_bfloat16 a[BM * LDA];
  __shared__ __align__(128) __nv_bfloat16 b[BK * LDB];
  __shared__ __align__(128) float c[BM * LDC];
  const int warp = threadIdx.x / 32, wm = warp / 2 * 32, wn = warp % 2 * 32;
  const int row0 = blockIdx.y * BM, column0 = blockIdx.x * BN;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[2][2];
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) wmma::fill_fragment(sum[i][j], 0.0f);
  for (int p = 0; p < k; p += BK) {
    for (int e = threadIdx.x; e < BM * BK; e += 128) {
      const int i = e / BK, q = e % BK;
      a[i * LDA + q] = row0 + i < n && p + q < k ? x[(int64_t)(row0 + i) * k + p + q] : __float2bfloat16(0.0f);
    }
    for (int e = threadIdx.x; e < BK * BN; e += 128) {
      const int q = e / BN, j = e % BN;
      b[q * LDB + j] = p + q < k && column0 + j < m ? w[(int64_t)(p + q) * m + column0 + j] : __float2bfloat16(0.0f);
    }
    __syncthreads();
    for (int q = 0; q < BK; q += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> fa[2];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::row_major> fb[2];
      for (int i = 0; i < 2; ++i) wmma::load_matrix_sync(fa[i], a + (wm + 16 * i) * LDA + q, LDA);
      for (int j = 0; j < 2; ++j) wmma::load_matrix_sync(fb[j], b + q * LDB + wn + 16 * j, LDB);
      for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) wmma::mma_sync(sum[i][j], fa[i], fb[j], sum[i][j]);
    }
    __syncthreads();
  }
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j)
      wmma::store_matrix_sync(c + (wm + 16 * i) * LDC + wn + 16 * j, sum[i][j], LDC, wmma::mem_row_major);
  __syncthreads();
  for (int e = threadIdx.x; e < BM * BN; e += 128) {
    const int i = e / BN, j = e % BN;
    if (row0 + i < n && column0 + j < m) y[(int64_t)(row0 + i) * m + column0 + j] = __float2bfloat16(c[i * LDC + j]);
  }
}

extern "C" void kernel(const __nv_bfloat16* x, const __nv_bfloat16* w, __nv_bfloat16* y, int64_t n, int64_t k, int64_t m, void* workspace, cudaStream_t stream) {
  matmul<<<dim3((m + BN - 1) / BN, (n + BM - 1) / BM), 128, 0, stream>>>(x, w, y, n, k, m);
}
