// A warp for each row: Welford's update for each lane, merged by Chan's formula with shuffles.
struct moments {
  float mean, m2, count;
};

__device__ moments merge(moments a, moments b) {
  float count = a.count + b.count;
  if (count == 0) return a;
  float delta = b.mean - a.mean;
  float share = b.count / count;
  return {a.mean + delta * share, a.m2 + b.m2 + delta * delta * a.count * share, count};
}

__global__ void layer_norm(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ b,
                           float* __restrict__ y, int64_t n, int64_t m) {
  const int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
  if (row >= n) return;
  x += row * m;
  y += row * m;
  moments mine = {0, 0, 0};
  for (int64_t j = threadIdx.x; j < m; j += 32) {
    mine.count += 1;
    float delta = x[j] - mine.mean;
    mine.mean += delta / mine.count;
    mine.m2 += delta * (x[j] - mine.mean);
  }
  for (int d = 1; d < 32; d *= 2) {
    moments other;
    other.mean = __shfl_xor_sync(0xffffffff, mine.mean, d);
    other.m2 = __shfl_xor_sync(0xffffffff, mine.m2, d);
    other.count = __shfl_xor_sync(0xffffffff, mine.count, d);
    // The same order of arguments in both lanes, so that all lanes end with equal bits.
    mine = (threadIdx.x & d) ? merge(other, mine) : merge(mine, other);
  }
  const float scale = rsqrtf(mine.m2 / m + 1e-5f);
  for (int64_t j = threadIdx.x; j < m; j += 32) y[j] = (x[j] - mine.mean) * scale * w[j] + b[j];
}

extern "C" void kernel(const float* x, const float* w, const float* b, float* y, int64_t n, int64_t m, void* workspace, cudaStream_t stream) {
  dim3 block(32, 8);
  dim3 grid((n + block.y - 1) / block.y);
  layer_norm<<<grid, block, 0, stream>>>(x, w, b, y, n, m);
}
