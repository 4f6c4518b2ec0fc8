// Single pass: pieces are taken by ticket and each waits for the sum that its left neighbour publishes in the workspace.
constexpr int piece = 1024;
constexpr int threads = 256;
constexpr int64_t pieces_of(int64_t m) { return (m + piece - 1) / piece; }

__device__ unsigned load_acquire(const unsigned* p) {
  unsigned v;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}

__device__ void store_release(unsigned* p, unsigned v) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

__global__ void __launch_bounds__(threads) chained(const float* x, float* y, unsigned* ticket, unsigned* flags, float* totals,
                                                   int64_t m, int64_t pieces) {
  __shared__ unsigned mine;
  __shared__ float warps[threads / 32];
  __shared__ float before;
  if (threadIdx.x == 0) mine = atomicAdd(ticket, 1u);
  __syncthreads();
  const int64_t item = mine, row = item / pieces, at = item % pieces;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t first = at * piece + threadIdx.x * 4;
  const float* in = x + row * m;
  float v[4];
  float sum = 0;
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    sum += first + e < m ? in[first + e] : 0.0f;
    v[e] = sum;
  }
  float upto = sum;
  for (int d = 1; d < 32; d *= 2) {
    float left = __shfl_up_sync(0xffffffff, upto, d);
    if (lane >= d) upto += left;
  }
  if (lane == 31) warps[warp] = upto;
  float left = __shfl_up_sync(0xffffffff, upto, 1);
  if (lane == 0) left = 0;
  __syncthreads();
  float total = 0;
  for (int w = 0; w < threads / 32; ++w) {
    if (w == warp) left += total;
    total += warps[w];
  }
  if (threadIdx.x == 0) {
    float start = 0;
    if (at > 0) {
      while (load_acquire(&flags[item - 1]) == 0) {
      }
      start = totals[item - 1];
    }
    totals[item] = start + total;
    __threadfence();
    store_release(&flags[item], 1u);
    before = start;
  }
  __syncthreads();
#pragma unroll
  for (int e = 0; e < 4; ++e)
    if (first + e < m) y[row * m + first + e] = before + (left + v[e]);
}

extern "C" int64_t workspace_bytes(int64_t n, int64_t m) { return 256 + 8 * n * pieces_of(m); }

extern "C" void kernel(const float* x, float* y, int64_t n, int64_t m, void* workspace, cudaStream_t stream) {
  const int64_t items = n * pieces_of(m);
  unsigned* ticket = static_cast<unsigned*>(workspace);
  unsigned* flags = ticket + 64;
  float* totals = reinterpret_cast<float*>(flags + items);
  cudaMemsetAsync(workspace, 0, 256 + 4 * items, stream);
  chained<<<items, threads, 0, stream>>>(x, y, ticket, flags, totals, m, pieces_of(m));
}
