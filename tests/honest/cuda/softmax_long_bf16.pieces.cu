// Few long rows: pieces give maximum and sum to the workspace, every block of the second kernel joins them for its row first.
#include <cuda_bf16.h>

constexpr int64_t piece = 8192;
constexpr int64_t pieces_of(int64_t m) { return (m + piece - 1) / piece; }

__device__ float2 join(float2 a, float2 b) {
  const float top = fmaxf(a.x, b.x);
  return make_float2(top, a.y * expf(a.x - top) + b.y * expf(b.x - top));
}

__global__ void __launch_bounds__(256) statistics(const __nv_bfloat16* x, float2* parts, int64_t m) {
  __shared__ float2 warps[8];
  const int64_t first = blockIdx.x * piece, last = first + piece < m ? first + piece : m;
  const __nv_bfloat16* row = x + blockIdx.y * m;
  float2 s = make_float2(-3.0e38f, 0.0f);
  for (int64_t j = first + threadIdx.x; j < last; j += 256) {
    const float v = __bfloat162float(row[j]);
    s = v > s.x ? make_float2(v, s.y * expf(s.x - v) + 1.0f) : make_float2(s.x, s.y + expf(v - s.x));
  }
  for (int d = 16; d > 0; d /= 2) {
    const float top = __shfl_xor_sync(0xffffffff, s.x, d), sum = __shfl_xor_sync(0xffffffff, s.y, d);
    s = join(s, make_float2(top, sum));
  }
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = s;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < 8; ++w) s = join(s, warps[w]);
    parts[blockIdx.y * gridDim.x + blockIdx.x] = s;
  }
}

__global__ void __launch_bounds__(256) write_out(const __nv_bfloat16* x, const float2* parts, __nv_bfloat16* y, int64_t m) {
  __shared__ float2 all;
  if (threadIdx.x == 0) {
    float2 s = parts[blockIdx.y * gridDim.x];
    for (unsigned p = 1; p < gridDim.x; ++p) s = join(s, parts[blockIdx.y * gridDim.x + p]);
    all = make_float2(s.x, 1.0f / s.y);
  }
  __syncthreads();
  const float top = all.x, scale = all.y;
  const int64_t first = blockIdx.x * piece, last = first + piece < m ? first + piece : m;
  for (int64_t j = first + threadIdx.x; j < last; j += 256)
    y[blockIdx.y * m + j] = __float2bfloat16(expf(__bfloat162float(x[blockIdx.y * m + j]) - top) * scale);
}

extern "C" int64_t workspace_bytes(int64_t n, int64_t m) { return 8 * n * pieces_of(m); }

extern "C" void kernel(const __nv_bfloat16* x, __nv_bfloat16* y, int64_t n, int64_t m, void* workspace, cudaStream_t stream) {
  dim3 grid(pieces_of(m), n);
  statistics<<<grid, 256, 0, stream>>>(x, (float2*)workspace, m);
  write_out<<<grid, 256, 0, stream>>>(x, (const float2*)workspace, y, m);
}
