// Implicit matrix product on tensor cores: filters times the patches of 64 positions, gathered into shared memory as they are needed.
#include <cuda_bf16.h>
#include <mma.h>

using namespace nvcuda;

constexpr int FILTERS = 64, POSITIONS = 64, DEPTH = 48, LD = DEPTH + 16, LDC = POSITIONS + 4;

__global__ void __launch_bounds__(128) conv(const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ f,
                                            const __nv_bfloat16* __restrict__ b, __nv_bfloat16* __restrict__ y, int c, int k, int h, int w) {
  __shared__ __align__(128) __nv_bfloat16 fs[FILTERS * LD], xs[POSITIONS * LD];
  __shared__ __align__(128) float out[FILTERS * LDC];
  const int area = h * w, depth = 9 * c, k0 = blockIdx.y * FILTERS, p0 = blockIdx.x * POSITIONS, warp = threadIdx.x / 32;
  const __nv_bfloat16 zero = __float2bfloat16(0.0f);
  x += (int64_t)blockIdx.z * c * area;
  y += (int64_t)blockIdx.z * k * area;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[4];
  for (int j = 0; j < 4; ++j) wmma::fill_fragment(sum[j], 0.0f);
  for (int d0 = 0; d0 < depth; d0 += DEPTH) {
    for (int e = threadIdx.x; e < FILTERS * DEPTH; e += 128) {
      const int o = e / DEPTH, d = d0 + e % DEPTH;
      fs[o * LD + e % DEPTH] = k0 + o < k && d < depth ? f[(int64_t)(k0 + o) * depth + d] : zero;
    }
    for (int e = threadIdx.x; e < POSITIONS * DEPTH; e += 128) {
      const int p = p0 + e % POSITIONS, d = d0 + e / POSITIONS;
      const int i = p / w + d % 9 / 3 - 1, j = p % w + d % 3 - 1;
      const bool there = p < area && d < depth && i >= 0 && i < h && j >= 0 && j < w;
      xs[e % POSITIONS * LD + e / POSITIONS] = there ? x[(int64_t)(d / 9) * area + i * w + j] : zero;
    }
    __syncthreads();
    for (int q = 0; q < DEPTH; q += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> a;
      wmma::load_matrix_sync(a, fs + warp * 16 * LD + q, LD);
      for (int j = 0; j < 4; ++j) {
        wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::col_major> v;
        wmma::load_matrix_sync(v, xs + j * 16 * LD + q, LD);
        wmma::mma_sync(sum[j], a, v, sum[j]);
      }
    }
    __syncthreads();
  }
  for (int j = 0; j < 4; ++j) wmma::store_matrix_sync(out + warp * 16 * LDC + j * 16, sum[j], LDC, wmma::mem_row_major);
  __syncthreads();
  for (int e = threadIdx.x; e < FILTERS * POSITIONS; e += 128) {
    const int o = k0 + e / POSITIONS, p = p0 + e % POSITIONS;
    if (o < k && p < area)
      y[(int64_t)o * area + p] = __float2bfloat16(fmaxf(out[e / POSITIONS * LDC + e % POSITIONS] + __bfloat162float(b[o]), 0.0f));
  }
}

extern "C" void kernel(const __nv_bfloat16* x, const __nv_bfloat16* f, const __nv_bfloat16* b, __nv_bfloat16* y, int64_t n, int64_t c, int64_t k, int64_t h, int64_t w, void* workspace, cudaStream_t stream) {
  conv<<<dim3((h * w + POSITIONS - 1) / POSITIONS, (k + FILTERS - 1) / FILTERS, n), 128, 0, stream>>>(x, f, b, y, c, k, h, w);
}
