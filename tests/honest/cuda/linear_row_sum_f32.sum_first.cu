// The sum over outputs goes inside: columns of the weights are added up once, then one product with a vector. Honest algebra.
__global__ void sum_columns(const float* w, float* parts, int64_t k, int64_t m, int64_t rows) {
  const int64_t p = blockIdx.x * 128LL + threadIdx.x;
  if (p >= k) return;
  const int64_t first = blockIdx.y * rows, last = first + rows < m ? first + rows : m;
  float sum = 0;
  for (int64_t j = first; j < last; ++j) sum += w[j * k + p];
  parts[blockIdx.y * k + p] = sum;
}

// The last row of blocks' work: slabs together, and the bias by one warp more.
__global__ void together(const float* parts, const float* b, float* sums, int64_t k, int64_t m, int64_t slabs) {
  const int64_t p = blockIdx.x * 128LL + threadIdx.x;
  if (p < k) {
    float sum = 0;
    for (int64_t s = 0; s < slabs; ++s) sum += parts[s * k + p];
    sums[p] = sum;
  }
  if (blockIdx.x == 0 && threadIdx.x < 32) {
    float sum = 0;
    for (int64_t j = threadIdx.x; j < m; j += 32) sum += b[j];
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffff, sum, d);
    if (threadIdx.x == 0) sums[k] = sum;
  }
}

__global__ void dots(const float* x, const float* sums, float* y, int64_t n, int64_t k) {
  const int64_t row = blockIdx.x * 4LL + threadIdx.x / 32;
  if (row >= n) return;
  float sum = 0;
  for (int64_t p = threadIdx.x % 32; p < k; p += 32) sum = fmaf(x[row * k + p], sums[p], sum);
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffff, sum, d);
  if (threadIdx.x % 32 == 0) y[row] = sum + sums[k];
}

constexpr int64_t slab_rows = 64;
constexpr int64_t slabs_of(int64_t m) { return (m + slab_rows - 1) / slab_rows; }

extern "C" int64_t workspace_bytes(int64_t n, int64_t k, int64_t m) { return 4 * (slabs_of(m) * k + k + 1); }

extern "C" void kernel(const float* x, const float* w, const float* b, float* y, int64_t n, int64_t k, int64_t m, void* workspace, cudaStream_t stream) {
  float* parts = (float*)workspace;
  float* sums = parts + slabs_of(m) * k;
  const int64_t blocks = (k + 127) / 128;
  sum_columns<<<dim3(blocks, slabs_of(m)), 128, 0, stream>>>(w, parts, k, m, slab_rows);
  together<<<blocks, 128, 0, stream>>>(parts, b, sums, k, m, slabs_of(m));
  dots<<<(n + 3) / 4, 128, 0, stream>>>(x, sums, y, n, k);
}
