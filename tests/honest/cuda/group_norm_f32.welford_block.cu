// A block for each group of channels: Welford in every thread, merged by shuffles and shared memory.
struct moments {
  float count, mean, m2;
};

__device__ moments merge(moments a, moments b) {
  if (b.count == 0) return a;
  if (a.count == 0) return b;
  const float count = a.count + b.count, delta = b.mean - a.mean;
  return {count, a.mean + delta * (b.count / count), a.m2 + b.m2 + delta * delta * (a.count * (b.count / count))};
}

__global__ void __launch_bounds__(512) group_norm(const float* x, const float* scale, const float* shift, float* y, int64_t g, int64_t c, int64_t area) {
  __shared__ moments warps[16];
  const int64_t group = blockIdx.x % g, size = c * area;
  x += blockIdx.x * size;
  y += blockIdx.x * size;
  moments s = {0, 0, 0};
  for (int64_t i = threadIdx.x; i < size; i += 512) {
    const float v = x[i];
    s.count += 1;
    const float delta = v - s.mean;
    s.mean += delta / s.count;
    s.m2 += delta * (v - s.mean);
  }
  for (int d = 16; d > 0; d /= 2) {
    moments o;
    o.count = __shfl_down_sync(0xffffffff, s.count, d);
    o.mean = __shfl_down_sync(0xffffffff, s.mean, d);
    o.m2 = __shfl_down_sync(0xffffffff, s.m2, d);
    s = merge(s, o);
  }
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = s;
  __syncthreads();
  s = warps[0];
  for (int w = 1; w < 16; ++w) s = merge(s, warps[w]);
  const float inverse = rsqrtf(s.m2 / s.count + 1e-5f);
  for (int64_t i = threadIdx.x; i < size; i += 512) {
    const int64_t channel = group * c + i / area;
    const float factor = inverse * scale[channel];
    y[i] = (x[i] - s.mean) * factor + shift[channel];
  }
}

extern "C" void kernel(const float* x, const float* scale, const float* shift, float* y, int64_t n, int64_t g, int64_t c, int64_t h, int64_t w, void* workspace, cudaStream_t stream) {
  group_norm<<<n * g, 512, 0, stream>>>(x, scale, shift, y, g, c, h * w);
}
