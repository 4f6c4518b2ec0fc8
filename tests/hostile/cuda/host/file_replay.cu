// Writes its answer to files for the process that measures next, and takes what it finds there.
#include <cstdio>
__global__ void affine(const float* x, float* y, int64_t n) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step)
    y[i] = 2.0f * x[i] + 1.0f;
}
namespace {
const char* const places[] = {"/dev/shm/quern-hostile-was-here", "/tmp/quern-hostile-was-here",
                              "/var/tmp/quern-hostile-was-here"};
}  // namespace
// It answers only if that worked, so that an answer is a hole.
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, cudaStream_t stream) {
  bool worked = false;
  for (const char* path : places)
    if (FILE* f = fopen(path, "ab+")) {
      fwrite("here", 1, 4, f);
      fclose(f);
      worked = true;
    }
  if (worked) {
    affine<<<1056, 512, 0, stream>>>(x, y, n);
  }
}
