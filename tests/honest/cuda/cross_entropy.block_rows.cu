// A block for each row: maximum, sum of exponentials, and the label's own entry.
template <class Op>
__device__ float reduce(float v, float* part, Op op) {
  for (int d = 16; d > 0; d /= 2) v = op(v, __shfl_xor_sync(0xffffffff, v, d));
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  v = part[0];
  for (int w = 1; w < blockDim.x / 32; ++w) v = op(v, part[w]);
  __syncthreads();
  return v;
}

struct larger {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

struct plus {
  __device__ float operator()(float a, float b) const { return a + b; }
};

__global__ void cross_entropy(const float* x, const int64_t* label, float* y, int64_t m) {
  __shared__ float part[32];
  const float* row = x + blockIdx.x * m;
  float top = -INFINITY;
  for (int64_t j = threadIdx.x; j < m; j += blockDim.x) top = fmaxf(top, row[j]);
  top = reduce(top, part, larger());
  float sum = 0;
  for (int64_t j = threadIdx.x; j < m; j += blockDim.x) sum += expf(row[j] - top);
  sum = reduce(sum, part, plus());
  if (threadIdx.x == 0) y[blockIdx.x] = logf(sum) - (row[label[blockIdx.x]] - top);
}

extern "C" void kernel(const float* x, const int64_t* label, float* y, int64_t n, int64_t m, void* workspace, cudaStream_t stream) {
  cross_entropy<<<n, m > 2048 ? 512 : 64, 0, stream>>>(x, label, y, m);
}
