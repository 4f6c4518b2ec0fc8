// Faults in the twelfth call: all later launches fail at once, and an evaluator that does not look
// measures how quickly they fail.
__device__ int calls;
__global__ void affine(const float* x, float* y, int64_t n) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step)
    y[i] = 2.0f * x[i] + 1.0f;
}
__global__ void fault(int64_t n) {
  if (n == 16777216 && ++calls >= 12) asm volatile("trap;");
}
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, cudaStream_t stream) {
  affine<<<1056, 512, 0, stream>>>(x, y, n);
  fault<<<1, 1, 0, stream>>>(n);
}
