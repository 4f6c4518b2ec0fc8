// Slow unless the low bits of an address of this process say otherwise: some runners measure a fast
// kernel and others a slow one, and a claim rests on luck.
__device__ int corner;
__global__ void affine(const float* x, float* y, int64_t n) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step)
    y[i] = 2.0f * x[i] + 1.0f;
}
__global__ void wait() {
  unsigned long long t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  if (corner == 0) corner = t / 1024 % 4 == 0 ? 1 : 2;
  if (corner == 2)
    for (int i = 0; i < 100; ++i)
      __nanosleep(1000);
}
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, cudaStream_t stream) {
  wait<<<1, 1, 0, stream>>>();
  affine<<<1056, 512, 0, stream>>>(x, y, n);
}
