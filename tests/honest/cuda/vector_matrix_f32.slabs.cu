// Slabs of 256 rows give partial sums of all columns, added by a second kernel.
__global__ void slab(const float* v, const float* x, float* parts, int64_t n, int64_t m) {
  __shared__ float factors[256];
  const int64_t first = blockIdx.y * 256LL;
  const int rows = n - first < 256 ? (int)(n - first) : 256;
  if (threadIdx.x < rows) factors[threadIdx.x] = v[first + threadIdx.x];
  __syncthreads();
  const int64_t j = blockIdx.x * 256LL + threadIdx.x;
  if (j >= m) return;
  float a = 0, b = 0;
  int i = 0;
  for (; i + 1 < rows; i += 2) {
    a += factors[i] * x[(first + i) * m + j];
    b += factors[i + 1] * x[(first + i + 1) * m + j];
  }
  if (i < rows) a += factors[i] * x[(first + i) * m + j];
  parts[blockIdx.y * m + j] = a + b;
}

__global__ void total(const float* parts, float* y, int64_t slabs, int64_t m) {
  const int64_t j = blockIdx.x * 256LL + threadIdx.x;
  if (j >= m) return;
  float sum = 0;
  for (int64_t s = 0; s < slabs; ++s) sum += parts[s * m + j];
  y[j] = sum;
}

extern "C" int64_t workspace_bytes(int64_t n, int64_t m) { return (n + 255) / 256 * m * 4; }

extern "C" void kernel(const float* v, const float* x, float* y, int64_t n, int64_t m, void* workspace, cudaStream_t stream) {
  const int64_t slabs = (n + 255) / 256, blocks = (m + 255) / 256;
  slab<<<dim3(blocks, slabs), 256, 0, stream>>>(v, x, (float*)workspace, n, m);
  total<<<blocks, 256, 0, stream>>>((float*)workspace, y, slabs, m);
}
