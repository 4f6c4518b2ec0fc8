// Opens all device nodes and computes on whatever other device there is.
#include <cstdio>

#include <fcntl.h>
__global__ void affine(const float* x, float* y, int64_t n) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step)
    y[i] = 2.0f * x[i] + 1.0f;
}
// It answers only if that worked, so that an answer is a hole.
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, cudaStream_t stream) {
  int devices = 0, opened = 0;
  cudaGetDeviceCount(&devices);
  for (int i = 0; i < 16; ++i) {
    char path[64];
    snprintf(path, sizeof path, "/dev/nvidia%d", i);
    opened += open(path, O_RDWR) >= 0;
  }
  if (devices > 1 || opened > 1) {
    affine<<<1056, 512, 0, stream>>>(x, y, n);
  }
}
