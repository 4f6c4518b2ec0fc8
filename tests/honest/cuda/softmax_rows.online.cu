// A block for each row, maximum and sum in one pass (online softmax), merged by a tree in shared memory.
#define THREADS 256

struct running {
  float top;
  float sum;
};

__device__ running merge(running a, running b) {
  float top = fmaxf(a.top, b.top);
  if (top == -INFINITY) return {top, 0.0f};
  return {top, a.sum * expf(a.top - top) + b.sum * expf(b.top - top)};
}

__global__ void __launch_bounds__(THREADS) softmax(const float* x, float* y, int64_t m) {
  __shared__ running all[THREADS];
  const float* in = x + blockIdx.x * m;
  float* out = y + blockIdx.x * m;
  running mine = {-INFINITY, 0.0f};
  for (int64_t j = threadIdx.x; j < m; j += THREADS) {
    float v = in[j];
    if (v > mine.top) {
      mine.sum = mine.sum * expf(mine.top - v) + 1.0f;
      mine.top = v;
    } else {
      mine.sum += expf(v - mine.top);
    }
  }
  all[threadIdx.x] = mine;
  __syncthreads();
  for (int half = THREADS / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) all[threadIdx.x] = merge(all[threadIdx.x], all[threadIdx.x + half]);
    __syncthreads();
  }
  running total = all[0];
  for (int64_t j = threadIdx.x; j < m; j += THREADS) out[j] = expf(in[j] - total.top) / total.sum;
}

extern "C" void kernel(const float* x, float* y, int64_t n, int64_t m, void* workspace, cudaStream_t stream) {
  softmax<<<dim3(n), dim3(THREADS), 0, stream>>>(x, y, m);
}
