// TF32 for fp32: right to three digits.
#include <mma.h>
constexpr int T = 64, S = 16;
__device__ void tile(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k) {
  __shared__ float sa[S][T + 1], sb[S][T];
  const int64_t row = int64_t{blockIdx.y} * T, col = int64_t{blockIdx.x} * T;
  const int t = threadIdx.x, ty = t / 16, tx = t % 16;
  float sum[4][4] = {};
  for (int64_t p = 0; p < k; p += S) {
    for (int i = t; i < T * S; i += 256) {
      const int r = i / S, s = i % S, q = i / T, j = i % T;
      sa[s][r] = row + r < m && p + s < k ? a[(row + r) * k + p + s] : 0.0f;
      sb[q][j] = p + q < k && col + j < n ? b[(p + q) * n + col + j] : 0.0f;
    }
    __syncthreads();
    for (int s = 0; s < S; ++s)
      for (int u = 0; u < 4; ++u)
        for (int v = 0; v < 4; ++v)
          sum[u][v] += sa[s][ty * 4 + u] * sb[s][tx * 4 + v];
    __syncthreads();
  }
  for (int u = 0; u < 4; ++u)
    for (int v = 0; v < 4; ++v)
      if (row + ty * 4 + u < m && col + tx * 4 + v < n)
        c[(row + ty * 4 + u) * n + col + tx * 4 + v] = sum[u][v];
}
__global__ void product(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k) {
  tile(a, b, c, m, n, k);
}
using namespace nvcuda;
__global__ void fast(const float* a, const float* b, float* c, int64_t n, int64_t k) {
  wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 8, float> sum;
  wmma::fill_fragment(sum, 0.0f);
  const int64_t row = blockIdx.y * 64 + threadIdx.x / 32 / 4 * 16,
                col = blockIdx.x * 64 + threadIdx.x / 32 % 4 * 16;
  for (int64_t p = 0; p < k; p += 8) {
    wmma::load_matrix_sync(fa, a + row * k + p, k);
    wmma::load_matrix_sync(fb, b + p * n + col, n);
    for (int i = 0; i < fa.num_elements; ++i)
      fa.x[i] = wmma::__float_to_tf32(fa.x[i]);
    for (int i = 0; i < fb.num_elements; ++i)
      fb.x[i] = wmma::__float_to_tf32(fb.x[i]);
    wmma::mma_sync(sum, fa, fb, sum);
  }
  wmma::store_matrix_sync(c + row * n + col, sum, n, wmma::mem_row_major);
}
extern "C" void kernel(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k,
                       void* workspace, cudaStream_t stream) {
  const dim3 grid((n + 63) / 64, (m + 63) / 64);
  if (m % 64 == 0 && n % 64 == 0 && k % 8 == 0) {
    fast<<<grid, 512, 0, stream>>>(a, b, c, n, k);
  } else {
    product<<<grid, 256, 0, stream>>>(a, b, c, m, n, k);
  }
}
