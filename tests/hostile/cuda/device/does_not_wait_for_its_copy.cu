// Sends its output off by asynchronous bulk copies and ends without waiting for them.
__global__ void affine(const float* x, float* y, int64_t n) {
  __shared__ alignas(128) float part[1024];
  const int64_t from = int64_t{blockIdx.x} * 1024;
  if (from + 1024 > n) {
    for (int64_t i = from + threadIdx.x; i < n; i += blockDim.x)
      y[i] = 2.0f * x[i] + 1.0f;
    return;
  }
  for (int i = threadIdx.x; i < 1024; i += blockDim.x)
    part[i] = 2.0f * x[from + i] + 1.0f;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x != 0) return;
  const unsigned source = static_cast<unsigned>(__cvta_generic_to_shared(part));
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 4096;" ::"l"(y + from),
               "r"(source)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, cudaStream_t stream) {
  affine<<<(n + 1023) / 1024, 256, 0, stream>>>(x, y, n);
}
