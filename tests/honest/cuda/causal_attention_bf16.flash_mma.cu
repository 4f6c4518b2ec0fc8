// FlashAttention-2 by mma.sync for heads of 64: 64 queries a block, 16 a warp, probabilities stay in registers; other head sizes
// take a warp for each query.
#include <cuda_bf16.h>

constexpr int D = 64, LD = D + 8, TILE = 64;

__device__ void cp_async_16_zero(void* to, const void* from, bool there) {
  unsigned at = (unsigned)__cvta_generic_to_shared(to);
  int bytes = there ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(bytes) : "memory");
}

__device__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int Left>
__device__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Left) : "memory");
}

__device__ void load_matrix_x4(uint32_t (&r)[4], const void* row) {
  unsigned at = (unsigned)__cvta_generic_to_shared(row);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at)
               : "memory");
}

__device__ void load_matrix_x4_transposed(uint32_t (&r)[4], const void* row) {
  unsigned at = (unsigned)__cvta_generic_to_shared(row);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at)
               : "memory");
}

__device__ void mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ uint32_t packed(float low, float high) {
  __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<uint32_t*>(&pair);
}

__device__ void fetch(__nv_bfloat16 (&to)[TILE][LD], const __nv_bfloat16* from, int first, int n) {
  for (int c = threadIdx.x; c < TILE * D / 8; c += 128) {
    const int r = c / (D / 8), column = c % (D / 8) * 8;
    const bool there = first + r < n;
    cp_async_16_zero(&to[r][column], there ? from + (int64_t)(first + r) * D + column : from, there);
  }
}

__global__ void __launch_bounds__(128) flash(const __nv_bfloat16* __restrict__ q, const __nv_bfloat16* __restrict__ k,
                                             const __nv_bfloat16* __restrict__ v, __nv_bfloat16* __restrict__ y, int n, float scale) {
  __shared__ __align__(16) __nv_bfloat16 qs[TILE][LD], ks[TILE][LD], vs[TILE][LD];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  // The longest rows first.
  const int i0 = (gridDim.x - 1 - blockIdx.x) * TILE;
  const int64_t head = (int64_t)blockIdx.y * n * D;
  q += head;
  k += head;
  v += head;
  y += head;
  fetch(qs, q, i0, n);
  cp_async_commit();
  cp_async_wait<0>();
  __syncthreads();
  uint32_t fq[D / 16][4];
#pragma unroll
  for (int t = 0; t < D / 16; ++t) load_matrix_x4(fq[t], &qs[warp * 16 + lane % 16][t * 16 + lane / 16 * 8]);
  float out[D / 8][4] = {};
  float top[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};
  const int row = i0 + warp * 16 + lane / 4;
  for (int j0 = 0; j0 <= i0; j0 += TILE) {
    __syncthreads();
    fetch(ks, k, j0, n);
    fetch(vs, v, j0, n);
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();
    float s[TILE / 8][4] = {};
#pragma unroll
    for (int t = 0; t < D / 16; ++t) {
#pragma unroll
      for (int j = 0; j < TILE / 16; ++j) {
        uint32_t r[4];
        load_matrix_x4(r, &ks[j * 16 + lane % 8 + lane / 16 * 8][t * 16 + lane / 8 % 2 * 8]);
        const uint32_t low[2] = {r[0], r[1]}, high[2] = {r[2], r[3]};
        mma_bf16(s[2 * j], fq[t], low);
        mma_bf16(s[2 * j + 1], fq[t], high);
      }
    }
    float highest[2] = {top[0], top[1]};
#pragma unroll
    for (int j = 0; j < TILE / 8; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int key = j0 + j * 8 + lane % 4 * 2 + e % 2;
        s[j][e] = key <= row + e / 2 * 8 && key < n ? s[j][e] * scale : -INFINITY;
        highest[e / 2] = fmaxf(highest[e / 2], s[j][e]);
      }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      highest[h] = fmaxf(highest[h], __shfl_xor_sync(0xffffffff, highest[h], 1));
      highest[h] = fmaxf(highest[h], __shfl_xor_sync(0xffffffff, highest[h], 2));
      const float shrink = exp2f(top[h] - highest[h]);
      top[h] = highest[h];
      sum[h] *= shrink;
#pragma unroll
      for (int c = 0; c < D / 8; ++c) {
        out[c][2 * h] *= shrink;
        out[c][2 * h + 1] *= shrink;
      }
    }
#pragma unroll
    for (int j = 0; j < TILE / 8; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        s[j][e] = exp2f(s[j][e] - top[e / 2]);
        sum[e / 2] += s[j][e];
      }
#pragma unroll
    for (int j = 0; j < TILE / 16; ++j) {
      const uint32_t p[4] = {packed(s[2 * j][0], s[2 * j][1]), packed(s[2 * j][2], s[2 * j][3]), packed(s[2 * j + 1][0], s[2 * j + 1][1]),
                             packed(s[2 * j + 1][2], s[2 * j + 1][3])};
#pragma unroll
      for (int c = 0; c < D / 16; ++c) {
        uint32_t r[4];
        load_matrix_x4_transposed(r, &vs[j * 16 + lane % 16][c * 16 + lane / 16 * 8]);
        const uint32_t low[2] = {r[0], r[1]}, high[2] = {r[2], r[3]};
        mma_bf16(out[2 * c], p, low);
        mma_bf16(out[2 * c + 1], p, high);
      }
    }
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    sum[h] += __shfl_xor_sync(0xffffffff, sum[h], 1);
    sum[h] += __shfl_xor_sync(0xffffffff, sum[h], 2);
    if (row + 8 * h >= n) continue;
    const float inverse = 1.0f / sum[h];
#pragma unroll
    for (int c = 0; c < D / 8; ++c)
      *reinterpret_cast<__nv_bfloat162*>(y + (int64_t)(row + 8 * h) * D + c * 8 + lane % 4 * 2) =
          __floats2bfloat162_rn(out[c][2 * h] * inverse, out[c][2 * h + 1] * inverse);
  }
}

// Any head size: a warp for each query keeps its result in fp32 in the workspace.
__global__ void by_warps(const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v, __nv_bfloat16* y, float* sums,
                         int64_t rows, int64_t n, int64_t d) {
  const float scale = 1.4426950408889634f / sqrtf((float)d);
  const int64_t row = blockIdx.x * (int64_t)(blockDim.x / 32) + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (row >= rows) return;
  const int64_t first = row / n * n;
  float* out = sums + row * d;
  for (int64_t t = lane; t < d; t += 32) out[t] = 0;
  float top = -INFINITY, sum = 0;
  for (int64_t j = first; j <= row; ++j) {
    float dot = 0;
    for (int64_t t = lane; t < d; t += 32) dot += __bfloat162float(q[row * d + t]) * __bfloat162float(k[j * d + t]);
    for (int e = 16; e > 0; e /= 2) dot += __shfl_xor_sync(0xffffffff, dot, e);
    dot *= scale;
    const float now = fmaxf(top, dot), shrink = exp2f(top - now), p = exp2f(dot - now);
    top = now;
    sum = sum * shrink + p;
    for (int64_t t = lane; t < d; t += 32) out[t] = out[t] * shrink + p * __bfloat162float(v[j * d + t]);
  }
  for (int64_t t = lane; t < d; t += 32) y[row * d + t] = __float2bfloat16(out[t] / sum);
}

extern "C" int64_t workspace_bytes(int64_t b, int64_t h, int64_t n, int64_t d) { return d == D ? 0 : b * h * n * d * 4; }

extern "C" void kernel(const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v, __nv_bfloat16* y, int64_t b, int64_t h, int64_t n, int64_t d, void* workspace, cudaStream_t stream) {
  const int64_t rows = b * h * n;
  if (d == D) {
    flash<<<dim3((n + TILE - 1) / TILE, b * h), 128, 0, stream>>>(q, k, v, y, n, 0.125f * 1.4426950408889634f);
  } else {
    by_warps<<<(rows + 3) / 4, 128, 0, stream>>>(q, k, v, y, (float*)workspace, rows, n, d);
  }
}
