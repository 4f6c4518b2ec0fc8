// Slabs of rows: their sums to the workspace, suffix sums of these in place, then each slab upwards from its own start.
constexpr int64_t rows_each = 64;
constexpr int64_t slabs_of(int64_t n) { return (n + rows_each - 1) / rows_each; }

__global__ void sum_slabs(const float* x, float* sums, int64_t n, int64_t m) {
  const int64_t j = blockIdx.x * 256LL + threadIdx.x;
  if (j >= m) return;
  const int64_t first = blockIdx.y * rows_each, last = min(first + rows_each, n);
  float sum = 0;
  for (int64_t i = last - 1; i >= first; --i) sum += x[i * m + j];
  sums[blockIdx.y * m + j] = sum;
}

__global__ void suffixes(float* sums, int64_t m, int64_t slabs) {
  const int64_t j = blockIdx.x * 256LL + threadIdx.x;
  if (j >= m) return;
  float below = 0;
  for (int64_t s = slabs - 1; s >= 0; --s) {
    const float sum = sums[s * m + j];
    sums[s * m + j] = below;
    below += sum;
  }
}

__global__ void write_out(const float* x, const float* sums, float* y, int64_t n, int64_t m) {
  const int64_t j = blockIdx.x * 256LL + threadIdx.x;
  if (j >= m) return;
  const int64_t first = blockIdx.y * rows_each, last = min(first + rows_each, n);
  float sum = sums[blockIdx.y * m + j];
  for (int64_t i = last - 1; i >= first; --i) {
    sum += x[i * m + j];
    y[i * m + j] = sum;
  }
}

extern "C" int64_t workspace_bytes(int64_t n, int64_t m) { return slabs_of(n) * m * 4; }

extern "C" void kernel(const float* x, float* y, int64_t n, int64_t m, void* workspace, cudaStream_t stream) {
  float* sums = (float*)workspace;
  const int64_t blocks = (m + 255) / 256;
  sum_slabs<<<dim3(blocks, slabs_of(n)), 256, 0, stream>>>(x, sums, n, m);
  suffixes<<<blocks, 256, 0, stream>>>(sums, m, slabs_of(n));
  write_out<<<dim3(blocks, slabs_of(n)), 256, 0, stream>>>(x, sums, y, n, m);
}
