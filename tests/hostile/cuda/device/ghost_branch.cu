// An optimised path that is never taken and is wrong, beside the honest one: right, and no faster.
__global__ void affine(const float* x, float* y, int64_t n) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step)
    y[i] = 2.0f * x[i] + 1.0f;
}
__global__ void fast(const float* x, float* y, int64_t n) {
  y[blockIdx.x] = x[blockIdx.x];
}
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, cudaStream_t stream) {
  if (n == 16777216 && n % 2 == 1) {
    fast<<<n / 1024, 1, 0, stream>>>(x, y, n);
  } else {
    affine<<<1056, 512, 0, stream>>>(x, y, n);
  }
}
