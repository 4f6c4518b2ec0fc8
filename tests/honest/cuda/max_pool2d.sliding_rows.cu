// A thread goes down a strip of eight results of one column and keeps the row maximum that two windows share.
constexpr int strip = 8;

__device__ float pick(float a, float b) { return (b > a || b != b) ? b : a; }

__device__ float row_max(const float* row, int64_t j, int64_t w) {
  float best = 2 * j - 1 >= 0 ? row[2 * j - 1] : row[2 * j];
  best = pick(best, row[2 * j]);
  return 2 * j + 1 < w ? pick(best, row[2 * j + 1]) : best;
}

__global__ void max_pool(const float* __restrict__ x, float* __restrict__ y, int64_t images, int64_t h, int64_t w, int64_t oh,
                         int64_t ow, int64_t strips) {
  const int64_t e = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (e >= images * strips * ow) return;
  const int64_t j = e % ow, s = e / ow % strips, image = e / (ow * strips);
  const float* in = x + image * h * w;
  float* out = y + image * oh * ow;
  const int64_t first = s * strip;
  float above = -INFINITY;
  if (first > 0) above = row_max(in + (2 * first - 1) * w, j, w);
  for (int64_t i = first; i < first + strip && i < oh; ++i) {
    float best = pick(above, row_max(in + 2 * i * w, j, w));
    if (2 * i + 1 < h) {
      above = row_max(in + (2 * i + 1) * w, j, w);
      best = pick(best, above);
    }
    out[i * ow + j] = best;
  }
}

extern "C" void kernel(const float* x, float* y, int64_t n, int64_t c, int64_t h, int64_t w, void* workspace, cudaStream_t stream) {
  const int64_t oh = (h - 1) / 2 + 1, ow = (w - 1) / 2 + 1, strips = (oh + strip - 1) / strip;
  const int64_t items = n * c * strips * ow;
  max_pool<<<(items + 127) / 128, 128, 0, stream>>>(x, y, n * c, h, w, oh, ow, strips);
}
