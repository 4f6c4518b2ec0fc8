// One pass with a running maximum and sum per lane in base two, float4 loads where rows are aligned.
constexpr float log2_e = 1.4426950408889634f;
constexpr float log_2 = 0.6931471805599453f;

struct state {
  float top, sum;
};

__device__ __forceinline__ void push(state& s, float v) {
  v *= log2_e;
  if (v > s.top) {
    s.sum = s.sum * exp2f(s.top - v) + 1.0f;
    s.top = v;
  } else {
    s.sum += exp2f(v - s.top);
  }
}

__device__ __forceinline__ state join(state a, state b) {
  const float top = fmaxf(a.top, b.top);
  // The lowest finite value stands for "nothing yet": its sum is 0, so that no infinities are subtracted.
  return {top, a.sum * exp2f(a.top - top) + b.sum * exp2f(b.top - top)};
}

template <int Threads>
__global__ void __launch_bounds__(Threads) cross_entropy(const float* __restrict__ x, const int64_t* __restrict__ label,
                                                         float* __restrict__ y, int64_t m) {
  __shared__ float tops[Threads / 32], sums[Threads / 32];
  const float* row = x + blockIdx.x * m;
  state s = {-3.0e38f, 0.0f};
  if (m % 4 == 0) {
    const float4* vectors = reinterpret_cast<const float4*>(row);
    for (int64_t j = threadIdx.x; j < m / 4; j += Threads) {
      const float4 v = __ldg(vectors + j);
      push(s, v.x);
      push(s, v.y);
      push(s, v.z);
      push(s, v.w);
    }
  } else {
    for (int64_t j = threadIdx.x; j < m; j += Threads) push(s, row[j]);
  }
#pragma unroll
  for (int d = 16; d > 0; d >>= 1) {
    state other = {__shfl_down_sync(0xffffffff, s.top, d), __shfl_down_sync(0xffffffff, s.sum, d)};
    s = join(s, other);
  }
  if (threadIdx.x % 32 == 0) {
    tops[threadIdx.x / 32] = s.top;
    sums[threadIdx.x / 32] = s.sum;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < Threads / 32; ++w) s = join(s, {tops[w], sums[w]});
    y[blockIdx.x] = (s.top * log_2 - row[label[blockIdx.x]]) + logf(s.sum);
  }
}

extern "C" void kernel(const float* x, const int64_t* label, float* y, int64_t n, int64_t m, void* workspace, cudaStream_t stream) {
  if (m >= 4096) {
    cross_entropy<512><<<n, 512, 0, stream>>>(x, label, y, m);
  } else {
    cross_entropy<128><<<n, 128, 0, stream>>>(x, label, y, m);
  }
}
