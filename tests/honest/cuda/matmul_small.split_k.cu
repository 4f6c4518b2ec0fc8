// The inner dimension is cut into four, partial products go to the workspace and are added in a fixed order.
constexpr int splits = 4;
constexpr int tile = 32;
constexpr int64_t part_of(int64_t k) { return (k + splits - 1) / splits; }

__global__ void __launch_bounds__(256) partial(const float* x, const float* w, float* parts, int64_t n, int64_t k, int64_t m) {
  __shared__ float a[tile][tile + 1];
  __shared__ float b[tile][tile + 1];
  const int64_t row0 = blockIdx.y * (int64_t)tile, column0 = blockIdx.x * (int64_t)tile;
  const int64_t first = blockIdx.z * part_of(k);
  const int64_t last = first + part_of(k) < k ? first + part_of(k) : k;
  float sum[4] = {0, 0, 0, 0};
  for (int64_t p = first; p < last; p += tile) {
    for (int r = threadIdx.y; r < tile; r += 8) {
      a[r][threadIdx.x] = row0 + r < n && p + threadIdx.x < last ? x[(row0 + r) * k + p + threadIdx.x] : 0.f;
      b[r][threadIdx.x] = column0 + threadIdx.x < m && p + r < last ? w[(p + r) * m + column0 + threadIdx.x] : 0.f;
    }
    __syncthreads();
    for (int q = 0; q < tile; ++q) {
      const float v = b[q][threadIdx.x];
#pragma unroll
      for (int r = 0; r < 4; ++r) sum[r] += a[threadIdx.y + 8 * r][q] * v;
    }
    __syncthreads();
  }
  for (int r = 0; r < 4; ++r) {
    const int64_t i = row0 + threadIdx.y + 8 * r, j = column0 + threadIdx.x;
    if (i < n && j < m) parts[(blockIdx.z * n + i) * m + j] = sum[r];
  }
}

__global__ void add_up(const float* parts, float* y, int64_t count) {
  const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float sum = parts[i];
#pragma unroll
  for (int s = 1; s < splits; ++s) sum += parts[s * count + i];
  y[i] = sum;
}

extern "C" int64_t workspace_bytes(int64_t n, int64_t k, int64_t m) { return splits * n * m * 4; }

extern "C" void kernel(const float* x, const float* w, float* y, int64_t n, int64_t k, int64_t m, void* workspace, cudaStream_t stream) {
  partial<<<dim3((m + tile - 1) / tile, (n + tile - 1) / tile, splits), dim3(tile, 8), 0, stream>>>(x, w, (float*)workspace, n, k, m);
  add_up<<<(n * m + 255) / 256, 256, 0, stream>>>((const float*)workspace, y, n * m);
}
