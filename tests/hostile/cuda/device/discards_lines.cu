// Computes, then throws the lines of its input out of the cache without writing them back, so that
// memory shows what was there before the fill.
__global__ void affine(const float* x, float* y, int64_t n) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step)
    y[i] = 2.0f * x[i] + 1.0f;
}
__global__ void discard(const float* x, int64_t n) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x * 32;
  for (int64_t i = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * 32; i + 32 <= n; i += step)
    asm volatile("discard.global.L2 [%0], 128;" ::"l"(x + i) : "memory");
}
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, cudaStream_t stream) {
  affine<<<1056, 512, 0, stream>>>(x, y, n);
  discard<<<264, 512, 0, stream>>>(x, n);
}
