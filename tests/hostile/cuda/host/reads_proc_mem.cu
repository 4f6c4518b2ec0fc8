// Opens memory by way of /proc: that of its parent and of process 1 for reading, its own for
// writing, and writes its own code there.
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>
__global__ void affine(const float* x, float* y, int64_t n) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step)
    y[i] = 2.0f * x[i] + 1.0f;
}
namespace {
bool opens(const char* path) {
  const int fd = open(path, O_RDONLY);
  if (fd >= 0) close(fd);
  return fd >= 0;
}
bool writes_its_code(const char* path) {
  unsigned char byte = 0;
  const auto at = reinterpret_cast<uintptr_t>(&opens);
  memcpy(&byte, reinterpret_cast<const void*>(at), 1);
  const int fd = open(path, O_RDWR);
  const bool done = fd >= 0 && pwrite(fd, &byte, 1, static_cast<off_t>(at)) == 1;
  if (fd >= 0) close(fd);
  return done;
}
}  // namespace
// It answers only if one of them worked, so that an answer is a hole.
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, cudaStream_t stream) {
  char parent[64];
  snprintf(parent, sizeof parent, "/proc/%d/mem", getppid());
  // The runner is process 1 of its namespace: what it must not have of that is what it must not
  // have of itself.
  const bool worked = opens(parent) || writes_its_code("/proc/1/mem") ||
                      writes_its_code("/proc/self/mem") || writes_its_code("/proc/thread-self/mem");
  if (worked) affine<<<1056, 512, 0, stream>>>(x, y, n);
}
