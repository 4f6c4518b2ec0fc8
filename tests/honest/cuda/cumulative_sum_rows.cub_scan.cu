// Host entry: CUB's block load, scan and store.
#include <cuda_runtime.h>

#include <cub/block/block_load.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_store.cuh>

namespace {

struct running_prefix {
  float total = 0;
  __device__ float operator()(float sum) {
    const float before = total;
    total += sum;
    return before;
  }
};

template <int Threads, int Each>
__global__ void scan_rows(const float* x, float* y, int64_t m) {
  using load = cub::BlockLoad<float, Threads, Each, cub::BLOCK_LOAD_WARP_TRANSPOSE>;
  using scan = cub::BlockScan<float, Threads>;
  using store = cub::BlockStore<float, Threads, Each, cub::BLOCK_STORE_WARP_TRANSPOSE>;
  __shared__ union {
    typename load::TempStorage load;
    typename scan::TempStorage scan;
    typename store::TempStorage store;
  } shared;
  const float* in = x + blockIdx.x * m;
  float* out = y + blockIdx.x * m;
  running_prefix prefix;
  for (int64_t base = 0; base < m; base += Threads * Each) {
    const int left = m - base < Threads * Each ? static_cast<int>(m - base) : Threads * Each;
    float v[Each];
    load(shared.load).Load(in + base, v, left, 0.0f);
    __syncthreads();
    scan(shared.scan).InclusiveSum(v, v, prefix);
    __syncthreads();
    store(shared.store).Store(out + base, v, left);
    __syncthreads();
  }
}

}  // namespace

extern "C" void kernel(const float* x, float* y, int64_t n, int64_t m, void* workspace, cudaStream_t stream) {
  scan_rows<128, 8><<<n, 128, 0, stream>>>(x, y, m);
}
