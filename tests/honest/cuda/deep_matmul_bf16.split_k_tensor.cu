// Split over the long inner dimension, tensor cores in each part (wmma), fp32 partial tiles in the workspace, fixed order of sums.
#include <cuda_bf16.h>
#include <mma.h>

using namespace nvcuda;

constexpr int tile = 64, depth = 64, lda = depth + 16, ldb = tile + 16;
constexpr int64_t part = 2048;
constexpr int64_t parts_of(int64_t k) { return (k + part - 1) / part; }
constexpr int64_t round_up(int64_t v) { return (v + tile - 1) / tile * tile; }

__global__ void __launch_bounds__(128) partial(const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ w, float* parts,
                                               int n, int64_t k, int m, int n_padded, int m_padded) {
  __shared__ __align__(128) __nv_bfloat16 a[tile * lda], b[depth * ldb];
  const int row0 = blockIdx.y * tile, column0 = blockIdx.x * tile;
  const int warp = threadIdx.x / 32, wm = warp / 2 * 32, wn = warp % 2 * 32;
  const int64_t first = blockIdx.z * part, last = min(first + part, k);
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[2][2];
#pragma unroll
  for (int i = 0; i < 4; ++i) wmma::fill_fragment(sum[i / 2][i % 2], 0.0f);
  for (int64_t p = first; p < last; p += depth) {
    for (int e = threadIdx.x; e < tile * depth; e += 128) {
      const int i = e / depth, q = e % depth;
      a[i * lda + q] = row0 + i < n && p + q < last ? x[(row0 + i) * k + p + q] : __float2bfloat16(0.0f);
    }
    for (int e = threadIdx.x; e < depth * tile; e += 128) {
      const int q = e / tile, j = e % tile;
      b[q * ldb + j] = column0 + j < m && p + q < last ? w[(p + q) * m + column0 + j] : __float2bfloat16(0.0f);
    }
    __syncthreads();
#pragma unroll
    for (int q = 0; q < depth; q += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> fa[2];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::row_major> fb[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        wmma::load_matrix_sync(fa[i], a + (wm + 16 * i) * lda + q, lda);
        wmma::load_matrix_sync(fb[i], b + q * ldb + wn + 16 * i, ldb);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) wmma::mma_sync(sum[i / 2][i % 2], fa[i / 2], fb[i % 2], sum[i / 2][i % 2]);
    }
    __syncthreads();
  }
  // The partial matrices are padded to whole tiles, so that fragments are stored as they are.
  float* out = parts + ((int64_t)blockIdx.z * n_padded + row0 + wm) * m_padded + column0 + wn;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    wmma::store_matrix_sync(out + i / 2 * 16 * m_padded + i % 2 * 16, sum[i / 2][i % 2], m_padded, wmma::mem_row_major);
}

__global__ void add_up(const float* parts, __nv_bfloat16* y, int64_t n, int64_t m, int64_t n_padded, int64_t m_padded, int64_t count) {
  const int64_t e = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (e >= n * m) return;
  const int64_t i = e / m, j = e % m;
  float sum = 0;
  for (int64_t p = 0; p < count; ++p) sum += parts[(p * n_padded + i) * m_padded + j];
  y[e] = __float2bfloat16(sum);
}

extern "C" int64_t workspace_bytes(int64_t n, int64_t k, int64_t m) { return parts_of(k) * round_up(n) * round_up(m) * 4; }

extern "C" void kernel(const __nv_bfloat16* x, const __nv_bfloat16* w, __nv_bfloat16* y, int64_t n, int64_t k, int64_t m, void* workspace, cudaStream_t stream) {
  const int64_t n_padded = round_up(n), m_padded = round_up(m);
  partial<<<dim3(m_padded / tile, n_padded / tile, parts_of(k)), 128, 0, stream>>>(x, w, (float*)workspace, n, k, m, n_padded, m_padded);
  add_up<<<(n * m + 255) / 256, 256, 0, stream>>>((float*)workspace, y, n, m, n_padded, m_padded, parts_of(k));
}
