// Rows of a head move as they are: 16 bytes a thread where they are whole vectors.
#include <cuda_bf16.h>

template <class T>
__global__ void move(const T* x, T* y, int64_t n, int64_t h, int64_t width, int64_t count) {
  const int64_t e = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (e >= count) return;
  const int64_t at = e % width, i = e / width % n, head = e / (width * n) % h, batch = e / (width * n * h);
  y[e] = x[((batch * n + i) * h + head) * width + at];
}

extern "C" void kernel(const __nv_bfloat16* x, __nv_bfloat16* y, int64_t b, int64_t n, int64_t h, int64_t d, void* workspace, cudaStream_t stream) {
  const int64_t count = b * n * h * d;
  if (d % 8 == 0) {
    move<uint4><<<(count / 8 + 255) / 256, 256, 0, stream>>>((const uint4*)x, (uint4*)y, n, h, d / 8, count / 8);
  } else if (d % 2 == 0) {
    move<unsigned><<<(count / 2 + 255) / 256, 256, 0, stream>>>((const unsigned*)x, (unsigned*)y, n, h, d / 2, count / 2);
  } else {
    move<unsigned short><<<(count + 255) / 256, 256, 0, stream>>>((const unsigned short*)x, (unsigned short*)y, n, h, d, count);
  }
}
