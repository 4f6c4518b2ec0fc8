// Host entry: a std::vector of equal shares of the images, one launch each, the sizes in constant memory.
#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

struct geometry {
  int64_t h, w, oh, ow;
};

__constant__ geometry shape;

__global__ void max_pool(const float* x, float* y, int64_t first, int64_t count) {
  const int64_t at = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (at >= count * shape.oh * shape.ow) return;
  const int64_t e = first * shape.oh * shape.ow + at;
  const int64_t j = e % shape.ow, i = e / shape.ow % shape.oh, image = e / (shape.ow * shape.oh);
  float best = -INFINITY;
  for (int64_t r = 2 * i - 1; r < 2 * i + 2; ++r)
    for (int64_t c = 2 * j - 1; c < 2 * j + 2; ++c)
      if (r >= 0 && r < shape.h && c >= 0 && c < shape.w) {
        const float v = x[(image * shape.h + r) * shape.w + c];
        best = !(v <= best) ? v : best;
        if (isnan(v)) {
          y[e] = v;
          return;
        }
      }
  y[e] = best;
}

struct share {
  int64_t first, count;
};

extern "C" void kernel(const float* x, float* y, int64_t n, int64_t c, int64_t h, int64_t w, void* workspace, cudaStream_t stream) {
  const geometry g{h, w, (h - 1) / 2 + 1, (w - 1) / 2 + 1};
  cudaMemcpyToSymbolAsync(shape, &g, sizeof g, 0, cudaMemcpyHostToDevice, stream);
  const int64_t images = n * c;
  std::vector<share> shares;
  for (int64_t first = 0; first < images; first += (images + 3) / 4)
    shares.push_back({first, first + (images + 3) / 4 < images ? (images + 3) / 4 : images - first});
  for (const share& one : shares) {
    const int64_t items = one.count * g.oh * g.ow;
    max_pool<<<(items + 255) / 256, 256, 0, stream>>>(x, y, one.first, one.count);
  }
}
