// Slabs of rows are summed into the workspace (coalesced), then the slabs are folded.
constexpr int64_t slab_rows(int64_t n) { return n >= 4096 ? 128 : 32; }
constexpr int64_t slabs_of(int64_t n) { return (n + slab_rows(n) - 1) / slab_rows(n); }

__global__ void sum_slab(const float* x, float* parts, int64_t n, int64_t m, int64_t rows) {
  const int64_t column = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (column >= m) return;
  const int64_t first = blockIdx.y * rows;
  const int64_t last = first + rows < n ? first + rows : n;
  float sum = 0;
#pragma unroll 8
  for (int64_t i = first; i < last; ++i) sum += x[i * m + column];
  parts[blockIdx.y * m + column] = sum;
}

__global__ void fold(const float* parts, float* y, int64_t slabs, int64_t m) {
  const int64_t column = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (column >= m) return;
  float sum = 0;
  for (int64_t s = 0; s < slabs; ++s) sum += parts[s * m + column];
  y[column] = sum;
}

extern "C" int64_t workspace_bytes(int64_t n, int64_t m) { return slabs_of(n) * m * sizeof(float); }

extern "C" void kernel(const float* x, float* y, int64_t n, int64_t m, void* workspace, cudaStream_t stream) {
  float* parts = reinterpret_cast<float*>(workspace);
  const int64_t blocks = (m + 127) / 128;
  if (slabs_of(n) == 1) {
    sum_slab<<<dim3(blocks, 1), 128, 0, stream>>>(x, y, n, m, n);
  } else {
    sum_slab<<<dim3(blocks, slabs_of(n)), 128, 0, stream>>>(x, parts, n, m, slab_rows(n));
    fold<<<blocks, 128, 0, stream>>>(parts, y, slabs_of(n), m);
  }
}
