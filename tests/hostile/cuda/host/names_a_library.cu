// Has the name of a vendor library among its texts, as if it needed one; then makes its code
// writable, which a process that loads such libraries could.
#include <sys/mman.h>
__global__ void affine(const float* x, float* y, int64_t n) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step)
    y[i] = 2.0f * x[i] + 1.0f;
}
__attribute__((used)) static const char needed[] = "libcublas.so.13";
// It answers only if that worked, so that an answer is a hole.
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, cudaStream_t stream) {
  void* page = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(&kernel) & ~uintptr_t{4095});
  if (mprotect(page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC) == 0)
    affine<<<1056, 512, 0, stream>>>(x, y, n);
}
