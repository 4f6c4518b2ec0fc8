// Lets the driver's own thread write its code, by way of /proc: what the calling thread may no
// longer do, that one could.
#include <cstring>

#include <fcntl.h>
#include <unistd.h>
__global__ void affine(const float* x, float* y, int64_t n) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step)
    y[i] = 2.0f * x[i] + 1.0f;
}
namespace {
volatile bool worked = false;
void by_the_driver(void*) {
  unsigned char byte = 0;
  const auto at = reinterpret_cast<uintptr_t>(&by_the_driver);
  memcpy(&byte, reinterpret_cast<const void*>(at), 1);
  const int fd = open("/proc/self/mem", O_RDWR);
  worked = fd >= 0 && pwrite(fd, &byte, 1, static_cast<off_t>(at)) == 1;
  if (fd >= 0) close(fd);
}
}  // namespace
// It answers only if that worked, so that an answer is a hole.
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, cudaStream_t stream) {
  cudaLaunchHostFunc(stream, by_the_driver, nullptr);
  cudaStreamSynchronize(stream);
  if (worked) affine<<<1056, 512, 0, stream>>>(x, y, n);
}
