// Waits in the driver for a kernel that waits for the host: killed processes of that kind die
// slowly.
__global__ void affine(const float* x, float* y, int64_t n) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step)
    y[i] = 2.0f * x[i] + 1.0f;
}
__global__ void spin(volatile int* flag) {
  while (*flag == 0) {
  }
}
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, cudaStream_t stream) {
  affine<<<1056, 512, 0, stream>>>(x, y, n);
  int* flag;
  cudaMallocManaged(&flag, 4);
  *flag = 0;
  spin<<<1, 1, 0, stream>>>(flag);
  cudaDeviceSynchronize();
}
