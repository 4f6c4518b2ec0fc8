// Value and index in one ordered 64-bit key: the larger value wins, of equal ones the first.
__device__ unsigned long long key_of(float v, unsigned at) {
  if (v == 0.0f) v = 0.0f;  // -0 and 0 are equal
  unsigned bits = __float_as_uint(v);
  bits = (bits & 0x80000000u) ? ~bits : (bits | 0x80000000u);
  return ((unsigned long long)bits << 32) | (0xffffffffu - at);
}

__global__ void __launch_bounds__(256) argmax(const float* x, int64_t* y, int64_t m) {
  __shared__ unsigned long long warps[8];
  const float* row = x + blockIdx.x * m;
  unsigned long long best = 0;
  for (int64_t j = threadIdx.x; j < m; j += 256) {
    const unsigned long long key = key_of(row[j], (unsigned)j);
    best = key > best ? key : best;
  }
  for (int d = 16; d > 0; d /= 2) {
    const unsigned long long other = __shfl_xor_sync(0xffffffff, best, d);
    best = other > best ? other : best;
  }
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = best;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < 8; ++w) best = warps[w] > best ? warps[w] : best;
    y[blockIdx.x] = (int64_t)(0xffffffffu - (unsigned)best);
  }
}

extern "C" void kernel(const float* x, int64_t* y, int64_t n, int64_t m, void* workspace, cudaStream_t stream) {
  argmax<<<n, 256, 0, stream>>>(x, y, m);
}
