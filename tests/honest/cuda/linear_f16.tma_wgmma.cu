// Host entry: tiles come in by TMA (descriptors made by cuTensorMapEncodeTiled in every call) and go to wgmma, in a ring of four
// stages with a thread that produces; rows that TMA cannot address take plain tiles.
#include <cuda.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace {

constexpr int BM = 128, BN = 128, BK = 64;
constexpr int stages = 4;
constexpr int a_bytes = BM * BK * 2, b_bytes = BN * BK * 2, stage_bytes = a_bytes + b_bytes;
constexpr int shared_bytes = stages * stage_bytes + 1024;

__device__ unsigned shared_address(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

__device__ void barrier_init(uint64_t* bar, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(bar)), "r"(count) : "memory");
}

__device__ void barrier_expect(uint64_t* bar, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(bar)), "r"(bytes) : "memory");
}

__device__ void barrier_arrive(uint64_t* bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(bar)) : "memory");
}

__device__ void barrier_wait(uint64_t* bar, int phase) {
  unsigned done = 0;
  while (done == 0) {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n"
        "}\n"
        : "=r"(done)
        : "r"(shared_address(bar)), "r"(phase)
        : "memory");
  }
}

__device__ void load_tile(void* to, const CUtensorMap* map, int k, int row, uint64_t* bar) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          shared_address(to)),
      "l"(map), "r"(k), "r"(row), "r"(shared_address(bar))
      : "memory");
}

__device__ __forceinline__ void multiply(float (&d)[64], uint64_t a, uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, 1, 1, 1, 0, 0;\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]),
        "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]),
        "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]),
        "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]),
        "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]),
        "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
      : "l"(a), "l"(b));
}

__device__ uint64_t descriptor(const void* p) {
  const uint64_t at = shared_address(p);
  return ((at & 0x3FFFF) >> 4) | (uint64_t{1} << 16) | (uint64_t{1024 >> 4} << 32) | (uint64_t{1} << 62);
}

// Warpgroups 0 and 1 multiply, one thread of warpgroup 2 fetches.
__global__ void __launch_bounds__(384) pipelined(const __grid_constant__ CUtensorMap map_x, const __grid_constant__ CUtensorMap map_w,
                                                 __half* y, int n, int k, int m) {
  extern __shared__ char raw[];
  __shared__ uint64_t full[stages], empty[stages];
  char* memory = raw + ((1024 - (shared_address(raw) & 1023)) & 1023);
  const int row0 = blockIdx.y * BM, column0 = blockIdx.x * BN;
  const int group = threadIdx.x / 128;
  const int tiles = (k + BK - 1) / BK;
  if (threadIdx.x == 0) {
    for (int s = 0; s < stages; ++s) {
      barrier_init(&full[s], 1);
      barrier_init(&empty[s], 256);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  if (group == 2) {
    if (threadIdx.x == 256) {
      for (int t = 0; t < tiles; ++t) {
        const int s = t % stages;
        if (t >= stages) barrier_wait(&empty[s], (t / stages - 1) % 2);
        barrier_expect(&full[s], stage_bytes);
        load_tile(memory + s * stage_bytes, &map_x, t * BK, row0, &full[s]);
        load_tile(memory + s * stage_bytes + a_bytes, &map_w, t * BK, column0, &full[s]);
      }
    }
    return;
  }
  float d[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) d[i] = 0.0f;
  for (int t = 0; t < tiles; ++t) {
    const int s = t % stages;
    barrier_wait(&full[s], t / stages % 2);
    const char* stage = memory + s * stage_bytes;
    const uint64_t da = descriptor(stage + group * 64 * 128), db = descriptor(stage + a_bytes);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int q = 0; q < BK / 16; ++q) multiply(d, da + q * 2, db + q * 2);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    barrier_arrive(&empty[s]);
  }
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
  const int row = row0 + group * 64 + warp * 16 + lane / 4;
#pragma unroll
  for (int i = 0; i < 64; i += 2) {
    const int r = row + i / 2 % 2 * 8, column = column0 + i / 4 * 8 + lane % 4 * 2;
    if (r >= n) continue;
    if (column < m) y[static_cast<int64_t>(r) * m + column] = __float2half(d[i]);
    if (column + 1 < m) y[static_cast<int64_t>(r) * m + column + 1] = __float2half(d[i + 1]);
  }
}

__global__ void plain(const __half* x, const __half* w, __half* y, int64_t n, int64_t k, int64_t m) {
  const int64_t j = blockIdx.x * 16LL + threadIdx.x, i = blockIdx.y * 16LL + threadIdx.y;
  if (i >= n || j >= m) return;
  float sum = 0;
  for (int64_t p = 0; p < k; ++p) sum += __half2float(x[i * k + p]) * __half2float(w[j * k + p]);
  y[i * m + j] = __float2half(sum);
}

using encode_function = decltype(&cuTensorMapEncodeTiled);

encode_function find_encode() {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result) != cudaSuccess ||
      result != cudaDriverEntryPointSuccess)
    return nullptr;
  return reinterpret_cast<encode_function>(found);
}

bool describe(encode_function encode, CUtensorMap& map, const __half* data, int64_t rows, int64_t k) {
  const cuuint64_t size[2] = {static_cast<cuuint64_t>(k), static_cast<cuuint64_t>(rows)};
  const cuuint64_t stride[1] = {static_cast<cuuint64_t>(k) * 2};
  const cuuint32_t box[2] = {BK, 128};
  const cuuint32_t step[2] = {1, 1};
  return encode(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, const_cast<__half*>(data), size, stride, box, step,
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

}  // namespace

extern "C" void kernel(const __half* x, const __half* w, __half* y, int64_t n, int64_t k, int64_t m, void* workspace, cudaStream_t stream) {
  static const encode_function encode = find_encode();
  CUtensorMap map_x, map_w;
  if (k % 8 == 0 && encode != nullptr && describe(encode, map_x, x, n, k) && describe(encode, map_w, w, m, k)) {
    cudaFuncSetAttribute(pipelined, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
    pipelined<<<dim3((m + BN - 1) / BN, (n + BM - 1) / BM), 384, shared_bytes, stream>>>(map_x, map_w, y, n, k, m);
  } else {
    plain<<<dim3((m + 15) / 16, (n + 15) / 16), dim3(16, 16), 0, stream>>>(x, w, y, n, k, m);
  }
}
