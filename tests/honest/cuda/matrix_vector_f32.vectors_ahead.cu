// A block for each row with float4 loads, the part before the first aligned element and the tail by single elements.
__global__ void __launch_bounds__(256) matrix_vector(const float* __restrict__ x, const float* __restrict__ v, float* __restrict__ y, int64_t m) {
  __shared__ float part[8];
  const float* row = x + blockIdx.x * m;
  const int64_t skew = (reinterpret_cast<uintptr_t>(row) / 4) % 4;
  const int64_t head = skew == 0 ? 0 : (4 - skew < m ? 4 - skew : m);
  const int64_t vectors = (m - head) / 4;
  float sum = 0;
  if (threadIdx.x < head) sum = row[threadIdx.x] * v[threadIdx.x];
  const float4* body = reinterpret_cast<const float4*>(row + head);
  for (int64_t j = threadIdx.x; j < vectors; j += 256) {
    const float4 a = __ldcs(body + j);
    const float* b = v + head + 4 * j;
    sum += a.x * b[0] + a.y * b[1] + a.z * b[2] + a.w * b[3];
  }
  for (int64_t j = head + 4 * vectors + threadIdx.x; j < m; j += 256) sum += row[j] * v[j];
#pragma unroll
  for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(0xffffffff, sum, d);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 8) {
    sum = part[threadIdx.x];
    for (int d = 4; d > 0; d /= 2) sum += __shfl_down_sync(0xff, sum, d, 8);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
  }
}

extern "C" void kernel(const float* x, const float* v, float* y, int64_t n, int64_t m, void* workspace, cudaStream_t stream) {
  matrix_vector<<<n, 256, 0, stream>>>(x, v, y, m);
}
