// Opens the memory of itself, of its parent and of process 1.
#include <cstdio>

#include <fcntl.h>
#include <unistd.h>
__global__ void affine(const float* x, float* y, int64_t n) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step)
    y[i] = 2.0f * x[i] + 1.0f;
}
// It answers only if that worked, so that an answer is a hole.
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, cudaStream_t stream) {
  char parent[64];
  snprintf(parent, sizeof parent, "/proc/%d/mem", getppid());
  int opened = 0;
  for (const char* path :
       {"/proc/self/mem", "/proc/1/mem", "/proc/self/maps", static_cast<const char*>(parent)})
    opened += open(path, O_RDWR) >= 0 || open(path, O_RDONLY) >= 0;
  if (opened > 0) {
    affine<<<1056, 512, 0, stream>>>(x, y, n);
  }
}
