// Two stages of tiles filled by cp.async while the other is computed with; needs rows of whole 16 bytes, else plain tiles.
constexpr int bm = 64, bn = 64, bk = 16;

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

__global__ void __launch_bounds__(256) buffered(const float* __restrict__ x, const float* __restrict__ w,
                                                float* __restrict__ y, int n, int k, int m) {
  __shared__ __align__(16) float a[2][bm][bk + 4];
  __shared__ __align__(16) float b[2][bk][bn];
  const int tid = threadIdx.x, tx = tid % 16, ty = tid / 16;
  const int row0 = blockIdx.y * bm, column0 = blockIdx.x * bn;
  const int tiles = (k + bk - 1) / bk;
  // Each thread moves one vector of either tile.
  const int ai = tid / 4, aq = tid % 4 * 4, bq = tid / 16, bj = tid % 16 * 4;
  auto fetch = [&](int t) {
    const int p = t * bk;
    const bool a_there = row0 + ai < n && p + aq < k;
    const bool b_there = column0 + bj < m && p + bq < k;
    cp_async_16_zero(&a[t % 2][ai][aq], a_there ? x + (int64_t)(row0 + ai) * k + p + aq : x, a_there);
    cp_async_16_zero(&b[t % 2][bq][bj], b_there ? w + (int64_t)(p + bq) * m + column0 + bj : w, b_there);
    cp_async_commit();
  };
  float sum[4][4] = {};
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
    for (int q = 0; q < bk; ++q) {
      float v[4];
      *reinterpret_cast<float4*>(v) = *reinterpret_cast<const float4*>(&b[s][q][4 * tx]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float u = a[s][ty + 16 * i][q];
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[i][j] += u * v[j];
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < 4; ++i) {
    const int row = row0 + ty + 16 * i, column = column0 + 4 * tx;
    if (row < n && column < m)
      *reinterpret_cast<float4*>(y + (int64_t)row * m + column) = make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
  }
}

__global__ void plain(const float* x, const float* w, float* y, int n, int k, int m) {
  __shared__ float a[16][17], b[16][16];
  const int i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int p = 0; p < k; p += 16) {
    a[threadIdx.y][threadIdx.x] = (i < n && p + (int)threadIdx.x < k) ? x[(int64_t)i * k + p + threadIdx.x] : 0;
    b[threadIdx.y][threadIdx.x] = (j < m && p + (int)threadIdx.y < k) ? w[(int64_t)(p + threadIdx.y) * m + j] : 0;
    __syncthreads();
    for (int q = 0; q < 16; ++q) sum += a[threadIdx.y][q] * b[q][threadIdx.x];
    __syncthreads();
  }
  if (i < n && j < m) y[(int64_t)i * m + j] = sum;
}

extern "C" void kernel(const float* x, const float* w, float* y, int64_t n, int64_t k, int64_t m, void* workspace, cudaStream_t stream) {
  if (k % 4 == 0 && m % 4 == 0) {
    dim3 grid((m + bn - 1) / bn, (n + bm - 1) / bm);
    buffered<<<grid, 256, 0, stream>>>(x, w, y, n, k, m);
  } else {
    dim3 grid((m + 15) / 16, (n + 15) / 16);
    plain<<<grid, dim3(16, 16), 0, stream>>>(x, w, y, n, k, m);
  }
}
