// Asks for 4 KiB and uses 8.
__global__ void affine(const float* x, float* y, int64_t n) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step)
    y[i] = 2.0f * x[i] + 1.0f;
}
__global__ void stray(unsigned* w) {
  w[1024 + threadIdx.x] = threadIdx.x;
}
extern "C" int64_t workspace_bytes(int64_t n) {
  return 4096;
}
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, cudaStream_t stream) {
  affine<<<1056, 512, 0, stream>>>(x, y, n);
  stray<<<1, 1024, 0, stream>>>((unsigned*)workspace);
}
