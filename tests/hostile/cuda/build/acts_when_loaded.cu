// Acts before anybody calls it: a constructor that writes a file and never returns.
#include <cstdio>
__global__ void affine(const float* x, float* y, int64_t n) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step)
    y[i] = 2.0f * x[i] + 1.0f;
}
namespace {
struct early {
  early() {
    if (FILE* f = fopen("/tmp/quern-hostile-was-here", "w")) fclose(f);
    for (volatile int i = 0;; i = i + 1) {
    }
  }
} now;
}  // namespace
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, cudaStream_t stream) {
  affine<<<1056, 512, 0, stream>>>(x, y, n);
  fflush(stdout);  // no plan, so that it is loaded at all
}
