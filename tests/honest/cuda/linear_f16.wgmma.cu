// Hopper's wgmma by PTX: 128 x 128 tiles, three stages of cp.async into 128-byte swizzled shared memory, no TMA; needs rows of
// whole 16 bytes, else plain tiles.
#include <cuda_fp16.h>

constexpr int BM = 128, BN = 128, BK = 64;
constexpr int stages = 3;
constexpr int a_bytes = BM * BK * 2, b_bytes = BN * BK * 2, stage_bytes = a_bytes + b_bytes;
constexpr int shared_bytes = stages * stage_bytes + 1024;

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

// What ordinary writes to shared memory need before wgmma reads it.
__device__ void async_proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }

__device__ __forceinline__ void wgmma_f16_n128(float (&d)[64], uint64_t a, uint64_t b, int accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, p, 1, 1, 0, 0;\n"
      "}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]),
        "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]),
        "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]),
        "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]),
        "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]),
        "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
      : "l"(a), "l"(b), "r"(accumulate));
}

// K-major operand with 128-byte swizzle: groups of eight rows are 1024 bytes apart.
__device__ uint64_t descriptor(const void* p) {
  uint64_t at = (unsigned)__cvta_generic_to_shared(p);
  return ((at & 0x3FFFF) >> 4) | (1ull << 16) | ((uint64_t)(1024 >> 4) << 32) | (1ull << 62);
}

__device__ void fetch_tile(char* to, const __half* from, int row0, int rows, int k0, int k) {
  for (int c = threadIdx.x; c < 128 * (BK / 8); c += 256) {
    const int r = c / (BK / 8), chunk = c % (BK / 8);
    const bool there = row0 + r < rows && k0 + chunk * 8 < k;
    cp_async_16_zero(to + r * 128 + ((chunk ^ (r & 7)) << 4), there ? from + (int64_t)(row0 + r) * k + k0 + chunk * 8 : from, there);
  }
}

__global__ void __launch_bounds__(256) tensor_cores(const __half* __restrict__ x, const __half* __restrict__ w, __half* __restrict__ y,
                                                    int n, int k, int m) {
  extern __shared__ char raw[];
  char* memory = raw + ((1024 - ((unsigned)__cvta_generic_to_shared(raw) & 1023)) & 1023);
  const int row0 = blockIdx.y * BM, column0 = blockIdx.x * BN;
  const int group = threadIdx.x / 128, lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  const int tiles = (k + BK - 1) / BK;
  auto fetch = [&](int t) {
    if (t < tiles) {
      char* stage = memory + t % stages * stage_bytes;
      fetch_tile(stage, x, row0, n, t * BK, k);
      fetch_tile(stage + a_bytes, w, column0, m, t * BK, k);
    }
    cp_async_commit();
  };
  float d[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) d[i] = 0.0f;
  for (int t = 0; t < stages - 1; ++t) fetch(t);
  for (int t = 0; t < tiles; ++t) {
    cp_async_wait<stages - 2>();
    async_proxy_fence();
    __syncthreads();
    fetch(t + stages - 1);
    const char* stage = memory + t % stages * stage_bytes;
    const uint64_t da = descriptor(stage + group * 64 * 128), db = descriptor(stage + a_bytes);
    wgmma_fence();
#pragma unroll
    for (int q = 0; q < BK / 16; ++q) wgmma_f16_n128(d, da + q * 2, db + q * 2, 1);
    wgmma_commit();
    wgmma_wait();
  }
  cp_async_wait<0>();
  const int row = row0 + group * 64 + warp * 16 + lane / 4;
#pragma unroll
  for (int i = 0; i < 64; i += 4) {
    const int column = column0 + i / 4 * 8 + lane % 4 * 2;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (row + 8 * h >= n) continue;
      __half* out = y + (int64_t)(row + 8 * h) * m;
      if (column < m) out[column] = __float2half(d[i + 2 * h]);
      if (column + 1 < m) out[column + 1] = __float2half(d[i + 2 * h + 1]);
    }
  }
}

__global__ void plain(const __half* x, const __half* w, __half* y, int n, int k, int m) {
  __shared__ float a[16][17], b[16][17];
  const int row0 = blockIdx.y * 16, column0 = blockIdx.x * 16, tx = threadIdx.x, ty = threadIdx.y;
  float sum = 0;
  for (int p = 0; p < k; p += 16) {
    a[ty][tx] = row0 + ty < n && p + tx < k ? __half2float(x[(int64_t)(row0 + ty) * k + p + tx]) : 0.0f;
    b[ty][tx] = column0 + ty < m && p + tx < k ? __half2float(w[(int64_t)(column0 + ty) * k + p + tx]) : 0.0f;
    __syncthreads();
    for (int q = 0; q < 16; ++q) sum += a[ty][q] * b[tx][q];
    __syncthreads();
  }
  if (row0 + ty < n && column0 + tx < m) y[(int64_t)(row0 + ty) * m + column0 + tx] = __float2half(sum);
}

extern "C" void kernel(const __half* x, const __half* w, __half* y, int64_t n, int64_t k, int64_t m, void* workspace, cudaStream_t stream) {
  if (k % 8 == 0) {
    cudaFuncSetAttribute(tensor_cores, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
    tensor_cores<<<dim3((m + BN - 1) / BN, (n + BM - 1) / BM), 256, shared_bytes, stream>>>(x, w, y, n, k, m);
  } else {
    plain<<<dim3((m + 15) / 16, (n + 15) / 16), dim3(16, 16), 0, stream>>>(x, w, y, n, k, m);
  }
}
