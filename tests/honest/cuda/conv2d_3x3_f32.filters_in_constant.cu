// Host entry: filters go to constant memory by an asynchronous copy in each call where they fit, in chunks of filters where not.
#include <cuda_runtime.h>

#include <algorithm>

namespace {

constexpr int64_t room = 12 * 1024;  // floats

__constant__ float weights[room];

// One filter a block layer; its weights begin at `offset` of the constant array.
__global__ void conv(const float* x, float* y, int64_t c, int64_t k, int64_t h, int64_t w, int64_t first) {
  const int64_t p = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (p >= h * w) return;
  const int64_t i = p / w, j = p % w, o = first + blockIdx.y;
  float sum = 0;
  for (int64_t s = 0; s < c; ++s) {
    const float* plane = x + (blockIdx.z * c + s) * h * w;
    const float* f = weights + (blockIdx.y * c + s) * 9;
    for (int u = 0; u < 9; ++u) {
      const int64_t r = i + u / 3 - 1, q = j + u % 3 - 1;
      if (r >= 0 && r < h && q >= 0 && q < w) sum = fmaf(plane[r * w + q], f[u], sum);
    }
  }
  y[(blockIdx.z * k + o) * h * w + p] = sum;
}

__global__ void conv_from_memory(const float* x, const float* f, float* y, int64_t c, int64_t k, int64_t h, int64_t w) {
  const int64_t p = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (p >= h * w) return;
  float sum = 0;
  for (int64_t s = 0; s < c; ++s)
    for (int u = 0; u < 9; ++u) {
      const int64_t r = p / w + u / 3 - 1, q = p % w + u % 3 - 1;
      if (r >= 0 && r < h && q >= 0 && q < w) sum += x[((blockIdx.z * c + s) * h + r) * w + q] * f[(blockIdx.y * c + s) * 9 + u];
    }
  y[(blockIdx.z * k + blockIdx.y) * h * w + p] = sum;
}

}  // namespace

extern "C" void kernel(const float* x, const float* f, float* y, int64_t n, int64_t c, int64_t k, int64_t h, int64_t w, void* workspace, cudaStream_t stream) {
  const unsigned blocks = static_cast<unsigned>((h * w + 127) / 128);
  const int64_t at_once = room / (9 * c);
  if (at_once == 0) {
    conv_from_memory<<<dim3(blocks, k, n), 128, 0, stream>>>(x, f, y, c, k, h, w);
    return;
  }
  for (int64_t first = 0; first < k; first += at_once) {
    const int64_t count = std::min(at_once, k - first);
    cudaMemcpyToSymbolAsync(weights, f + first * c * 9, count * c * 9 * sizeof(float), 0, cudaMemcpyDeviceToDevice, stream);
    conv<<<dim3(blocks, count, n), 128, 0, stream>>>(x, y, c, k, h, w, first);
  }
}
