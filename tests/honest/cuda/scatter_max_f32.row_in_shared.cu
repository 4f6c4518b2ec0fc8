// A block owns a row and keeps it in dynamic shared memory as ordered integers; rows beyond 200 KB go through compare and swap.
constexpr int64_t most_bytes = 200 * 1024;

__device__ int ordered(float v) {
  const int bits = __float_as_int(v);
  return bits >= 0 ? bits : bits ^ 0x7fffffff;
}

__device__ float restored(int v) { return __int_as_float(v >= 0 ? v : v ^ 0x7fffffff); }

__global__ void __launch_bounds__(256) in_shared(const float* start, const int64_t* at, const float* x, float* y, int64_t m, int64_t k) {
  extern __shared__ int row[];
  for (int64_t j = threadIdx.x; j < m; j += 256) row[j] = ordered(start[blockIdx.x * m + j]);
  __syncthreads();
  for (int64_t j = threadIdx.x; j < k; j += 256) atomicMax(&row[at[blockIdx.x * k + j]], ordered(x[blockIdx.x * k + j]));
  __syncthreads();
  for (int64_t j = threadIdx.x; j < m; j += 256) y[blockIdx.x * m + j] = restored(row[j]);
}

__global__ void copy(const float* start, float* y, int64_t count) {
  const int64_t e = blockIdx.x * 256LL + threadIdx.x;
  if (e < count) y[e] = start[e];
}

__global__ void by_swaps(const int64_t* at, const float* x, float* y, int64_t m, int64_t k, int64_t count) {
  const int64_t e = blockIdx.x * 256LL + threadIdx.x;
  if (e >= count) return;
  int* to = reinterpret_cast<int*>(y + e / k * m + at[e]);
  int seen = *to;
  while (__int_as_float(seen) < x[e]) {
    const int found = atomicCAS(to, seen, __float_as_int(x[e]));
    if (found == seen) break;
    seen = found;
  }
}

extern "C" void kernel(const float* start, const int64_t* at, const float* x, float* y, int64_t n, int64_t m, int64_t k, void* workspace, cudaStream_t stream) {
  if (m * 4 <= most_bytes) {
    cudaFuncSetAttribute(in_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, most_bytes);
    in_shared<<<n, 256, m * 4, stream>>>(start, at, x, y, m, k);
  } else {
    copy<<<(n * m + 255) / 256, 256, 0, stream>>>(start, y, n * m);
    by_swaps<<<(n * k + 255) / 256, 256, 0, stream>>>(at, x, y, m, k, n * k);
  }
}
