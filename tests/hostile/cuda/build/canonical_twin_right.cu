// The twin of canonical_twin_wrong: the same text but for its layout, and right. A verdict that is
// kept for one must not be given to the other.
__global__ void affine(const float* x, float* y, int64_t n) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step)
    y[i] = (__LINE__ % 2 == 0 ? 2.0f : 3.0f) * x[i] + 1.0f;
}
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, cudaStream_t stream) {
  affine<<<1056, 512, 0, stream>>>(x, y, n);
}
