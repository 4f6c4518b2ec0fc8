// Persistent blocks to partial sums in the workspace, one block adds these up.
__device__ float block_sum(float v) {
  __shared__ float part[32];
  for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffff, v, d);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  v = threadIdx.x % 32 < blockDim.x / 32 ? part[threadIdx.x % 32] : 0.0f;
  for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffff, v, d);
  return v;
}

__global__ void squares(const float* __restrict__ x, const float* __restrict__ t, float* parts, int64_t count) {
  float sum = 0;
  for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < count; i += (int64_t)gridDim.x * blockDim.x) {
    const float d = x[i] - t[i];
    sum = fmaf(d, d, sum);
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

__global__ void mean(const float* parts, float* y, int blocks, int64_t count) {
  float sum = 0;
  for (int b = threadIdx.x; b < blocks; b += blockDim.x) sum += parts[b];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *y = sum / (float)count;
}

constexpr int64_t blocks_for(int64_t count) { return count > 132 * 8 * 256 ? 132 * 8 : (count + 255) / 256; }

extern "C" int64_t workspace_bytes(int64_t n, int64_t m) { return blocks_for(n * m) * sizeof(float); }

extern "C" void kernel(const float* x, const float* t, float* y, int64_t n, int64_t m, void* workspace, cudaStream_t stream) {
  const int64_t count = n * m, blocks = blocks_for(count);
  squares<<<blocks, 256, 0, stream>>>(x, t, (float*)workspace, count);
  mean<<<1, 1024, 0, stream>>>((const float*)workspace, y, blocks, count);
}
