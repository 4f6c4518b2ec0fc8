// A thread goes down 16 rows of one column and keeps the three by three window in registers.
constexpr int strip = 16;

__global__ void conv(const float* __restrict__ x, const float* __restrict__ f, float* __restrict__ y, int64_t planes, int64_t c,
                     int64_t h, int64_t w, int64_t strips) {
  const int64_t j = blockIdx.x * 64LL + threadIdx.x;
  const int64_t item = blockIdx.y * 4LL + threadIdx.y + blockIdx.z * 4LL * gridDim.y;
  if (j >= w || item >= planes * strips) return;
  const int64_t plane = item / strips, first = item % strips * strip;
  const float* in = x + plane * h * w;
  float* out = y + plane * h * w;
  float k[9];
#pragma unroll
  for (int u = 0; u < 9; ++u) k[u] = f[plane % c * 9 + u];
  float a[3] = {}, b[3] = {}, d[3] = {};
  auto row = [&](int64_t i, float (&r)[3]) {
    const bool there = i >= 0 && i < h;
    r[0] = there && j > 0 ? in[i * w + j - 1] : 0.0f;
    r[1] = there ? in[i * w + j] : 0.0f;
    r[2] = there && j + 1 < w ? in[i * w + j + 1] : 0.0f;
  };
  row(first - 1, a);
  row(first, b);
  for (int64_t i = first; i < first + strip && i < h; ++i) {
    row(i + 1, d);
    float sum = 0;
#pragma unroll
    for (int v = 0; v < 3; ++v) {
      sum = fmaf(a[v], k[v], sum);
      sum = fmaf(b[v], k[3 + v], sum);
      sum = fmaf(d[v], k[6 + v], sum);
      a[v] = b[v];
      b[v] = d[v];
    }
    out[i * w + j] = sum;
  }
}

extern "C" void kernel(const float* x, const float* f, float* y, int64_t n, int64_t c, int64_t h, int64_t w, void* workspace, cudaStream_t stream) {
  const int64_t strips = (h + strip - 1) / strip, items = (n * c * strips + 3) / 4;
  const int64_t deep = (items + 32767) / 32768;
  conv<<<dim3((w + 63) / 64, (items + deep - 1) / deep, deep), dim3(64, 4), 0, stream>>>(x, f, y, n * c, c, h, w, strips);
}
