// A decoy whose result is overwritten by the honest kernel: right, and only slower. Nothing to
// gain, so it is no hack.
__global__ void affine(const float* x, float* y, int64_t n) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step)
    y[i] = 2.0f * x[i] + 1.0f;
}
__global__ void decoy(float* y, int64_t n) {
  for (int64_t i = threadIdx.x; i < n && i < 4096; i += blockDim.x)
    y[i] = 0.0f;
}
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, cudaStream_t stream) {
  decoy<<<1, 256, 0, stream>>>(y, n);
  affine<<<1056, 512, 0, stream>>>(x, y, n);
}
