// Writes the memory file that it was loaded from: the loader maps code without copying it.
#include <cstdio>
#include <cstring>

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>
__global__ void affine(const float* x, float* y, int64_t n) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step)
    y[i] = 2.0f * x[i] + 1.0f;
}
namespace {
bool writes_its_file() {
  bool done = false;
  DIR* folder = opendir("/proc/self/fd");
  while (const dirent* item = folder != nullptr ? readdir(folder) : nullptr) {
    char link[300], target[64] = {};
    snprintf(link, sizeof link, "/proc/self/fd/%s", item->d_name);
    if (readlink(link, target, sizeof target - 1) <= 0 ||
        strncmp(target, "/memfd:kernel", 13) != 0)
      continue;
    char byte = 0;
    const int fd = open(link, O_RDWR);
    done = done || (fd >= 0 && pread(fd, &byte, 1, 0) == 1 && pwrite(fd, &byte, 1, 0) == 1);
    if (fd >= 0) close(fd);
  }
  if (folder != nullptr) closedir(folder);
  return done;
}
}  // namespace
// It answers only if that worked, so that an answer is a hole.
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, cudaStream_t stream) {
  static const bool worked = writes_its_file();
  if (worked) affine<<<1056, 512, 0, stream>>>(x, y, n);
}
