// The row is read once into dynamic shared memory by 16-byte asynchronous copies where it is aligned; long rows are streamed.
constexpr int64_t limit = 40960;  // floats that fit in 160 KB
constexpr int threads = 256;

__device__ void cp_async_16(void* to, const void* from) {
  unsigned at = (unsigned)__cvta_generic_to_shared(to);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
}

__device__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int Left>
__device__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Left) : "memory");
}

__device__ float block_sum(float v, float* part) {
  for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffff, v, d);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  v = 0;
  for (int w = 0; w < threads / 32; ++w) v += part[w];
  __syncthreads();
  return v;
}

__global__ void __launch_bounds__(threads) in_shared(const float* x, const float* w, const float* b, float* y, int m) {
  extern __shared__ float4 memory[];
  __shared__ float part[threads / 32];
  float* row = (float*)memory;
  x += (int64_t)blockIdx.x * m;
  y += (int64_t)blockIdx.x * m;
  if (m % 4 == 0) {
    for (int j = threadIdx.x; j < m / 4; j += threads) cp_async_16(row + 4 * j, x + 4 * j);
    cp_async_commit();
    cp_async_wait<0>();
  } else {
    for (int j = threadIdx.x; j < m; j += threads) row[j] = x[j];
  }
  __syncthreads();
  float sum = 0;
  for (int j = threadIdx.x; j < m; j += threads) sum += row[j];
  float mean = block_sum(sum, part) / m;
  sum = 0;
  for (int j = threadIdx.x; j < m; j += threads) {
    float d = row[j] - mean;
    sum = fmaf(d, d, sum);
  }
  float scale = rsqrtf(block_sum(sum, part) / m + 1e-5f);
  for (int j = threadIdx.x; j < m; j += threads) y[j] = fmaf((row[j] - mean) * scale, w[j], b[j]);
}

__global__ void __launch_bounds__(threads) streamed(const float* x, const float* w, const float* b, float* y, int64_t m) {
  __shared__ float part[threads / 32];
  x += blockIdx.x * m;
  y += blockIdx.x * m;
  float sum = 0;
  for (int64_t j = threadIdx.x; j < m; j += threads) sum += x[j];
  float mean = block_sum(sum, part) / m;
  sum = 0;
  for (int64_t j = threadIdx.x; j < m; j += threads) sum += (x[j] - mean) * (x[j] - mean);
  float scale = rsqrtf(block_sum(sum, part) / m + 1e-5f);
  for (int64_t j = threadIdx.x; j < m; j += threads) y[j] = (x[j] - mean) * scale * w[j] + b[j];
}

extern "C" void kernel(const float* x, const float* w, const float* b, float* y, int64_t n, int64_t m, void* workspace, cudaStream_t stream) {
  if (m <= limit) {
    const int64_t bytes = (m + 3) / 4 * 16;
    cudaFuncSetAttribute(in_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, limit * 4);
    in_shared<<<n, threads, bytes, stream>>>(x, w, b, y, m);
  } else {
    streamed<<<n, threads, 0, stream>>>(x, w, b, y, m);
  }
}
