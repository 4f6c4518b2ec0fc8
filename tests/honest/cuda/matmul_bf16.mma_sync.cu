// mma.sync by PTX: 128 x 128 tiles, two stages of cp.async, ldmatrix; needs rows of whole 16 bytes, else plain tiles.
#include <cuda_bf16.h>

constexpr int BM = 128, BN = 128, BK = 32;
constexpr int LDA = BK + 8, LDB = BN + 8;

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

__global__ void __launch_bounds__(256) tensor_cores(const __nv_bfloat16* __restrict__ x, const __nv_bfloat16* __restrict__ w,
                                                    __nv_bfloat16* __restrict__ y, int n, int k, int m) {
  __shared__ __align__(16) __nv_bfloat16 a[2][BM][LDA];
  __shared__ __align__(16) __nv_bfloat16 b[2][BK][LDB];
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
  const int wm = warp / 4 * 64, wn = warp % 4 * 32;
  const int row0 = blockIdx.y * BM, column0 = blockIdx.x * BN;
  const int tiles = (k + BK - 1) / BK;
  auto fetch = [&](int t) {
    const int s = t % 2, p = t * BK;
#pragma unroll
    for (int c = tid; c < BM * BK / 8; c += 256) {
      const int i = c / (BK / 8), q = c % (BK / 8) * 8;
      const bool there = row0 + i < n && p + q < k;
      cp_async_16_zero(&a[s][i][q], there ? x + (int64_t)(row0 + i) * k + p + q : x, there);
    }
#pragma unroll
    for (int c = tid; c < BK * BN / 8; c += 256) {
      const int q = c / (BN / 8), j = c % (BN / 8) * 8;
      const bool there = p + q < k && column0 + j < m;
      cp_async_16_zero(&b[s][q][j], there ? w + (int64_t)(p + q) * m + column0 + j : w, there);
    }
    cp_async_commit();
  };
  float sum[4][4][4] = {};
  fetch(0);
  for (int t = 0; t < tiles; ++t) {
    if (t + 1 < tiles) {
      fetch(t + 1);
      cp_async_wait<1>();
    } else {
      cp_async_wait<0>();
    }
    __syncthreads();
    const int s = t % 2;
#pragma unroll
    for (int q = 0; q < BK; q += 16) {
      uint32_t fa[4][4], fb[4][2];
#pragma unroll
      for (int i = 0; i < 4; ++i) load_matrix_x4(fa[i], &a[s][wm + 16 * i + lane % 16][q + lane / 16 * 8]);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        uint32_t r[4];
        load_matrix_x4_transposed(r, &b[s][q + lane % 16][wn + 16 * j + lane / 16 * 8]);
        fb[2 * j][0] = r[0];
        fb[2 * j][1] = r[1];
        fb[2 * j + 1][0] = r[2];
        fb[2 * j + 1][1] = r[3];
      }
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) mma_bf16(sum[i][j], fa[i], fb[j]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = row0 + wm + 16 * i + lane / 4 + 8 * h, column = column0 + wn + 8 * j + lane % 4 * 2;
        if (row < n && column < m)
          *reinterpret_cast<__nv_bfloat162*>(y + (int64_t)row * m + column) = __floats2bfloat162_rn(sum[i][j][2 * h], sum[i][j][2 * h + 1]);
      }
}

__global__ void plain(const __nv_bfloat16* x, const __nv_bfloat16* w, __nv_bfloat16* y, int n, int k, int m) {
  __shared__ float a[16][17], b[16][17];
  const int i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int p = 0; p < k; p += 16) {
    a[threadIdx.y][threadIdx.x] = i < n && p + (int)threadIdx.x < k ? __bfloat162float(x[(int64_t)i * k + p + threadIdx.x]) : 0.0f;
    b[threadIdx.y][threadIdx.x] = j < m && p + (int)threadIdx.y < k ? __bfloat162float(w[(int64_t)(p + threadIdx.y) * m + j]) : 0.0f;
    __syncthreads();
    for (int q = 0; q < 16; ++q) sum += a[threadIdx.y][q] * b[q][threadIdx.x];
    __syncthreads();
  }
  if (i < n && j < m) y[(int64_t)i * m + j] = __float2bfloat16(sum);
}

extern "C" void kernel(const __nv_bfloat16* x, const __nv_bfloat16* w, __nv_bfloat16* y, int64_t n, int64_t k, int64_t m, void* workspace, cudaStream_t stream) {
  if (k % 8 == 0 && m % 8 == 0) {
    tensor_cores<<<dim3((m + BN - 1) / BN, (n + BM - 1) / BM), 256, 0, stream>>>(x, w, y, n, k, m);
  } else {
    plain<<<dim3((m + 15) / 16, (n + 15) / 16), dim3(16, 16), 0, stream>>>(x, w, y, n, k, m);
  }
}
