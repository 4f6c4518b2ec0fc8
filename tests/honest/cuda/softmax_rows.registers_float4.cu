// The row stays in registers where it fits (float4 loads, template by length); other lengths take a general path.
constexpr int threads = 256;

template <bool Max>
__device__ float block_reduce(float v, float* scratch) {
  for (int d = 16; d > 0; d >>= 1) {
    float o = __shfl_xor_sync(~0u, v, d);
    v = Max ? fmaxf(v, o) : v + o;
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
  __syncthreads();
  v = scratch[0];
  for (int w = 1; w < threads / 32; ++w) v = Max ? fmaxf(v, scratch[w]) : v + scratch[w];
  return v;
}

template <int Vectors>
__global__ void __launch_bounds__(threads) in_registers(const float4* __restrict__ x, float4* __restrict__ y, int count) {
  __shared__ float scratch[threads / 32];
  x += (int64_t)blockIdx.x * count;
  y += (int64_t)blockIdx.x * count;
  float4 v[Vectors];
  float top = -INFINITY;
#pragma unroll
  for (int i = 0; i < Vectors; ++i) {
    int j = i * threads + threadIdx.x;
    v[i] = j < count ? x[j] : make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);
    top = fmaxf(top, fmaxf(fmaxf(v[i].x, v[i].y), fmaxf(v[i].z, v[i].w)));
  }
  top = block_reduce<true>(top, scratch);
  float sum = 0;
#pragma unroll
  for (int i = 0; i < Vectors; ++i) {
    v[i].x = __expf(v[i].x - top);
    v[i].y = __expf(v[i].y - top);
    v[i].z = __expf(v[i].z - top);
    v[i].w = __expf(v[i].w - top);
    sum += (v[i].x + v[i].y) + (v[i].z + v[i].w);
  }
  float scale = 1.0f / block_reduce<false>(sum, scratch);
#pragma unroll
  for (int i = 0; i < Vectors; ++i) {
    int j = i * threads + threadIdx.x;
    if (j < count) y[j] = make_float4(v[i].x * scale, v[i].y * scale, v[i].z * scale, v[i].w * scale);
  }
}

__global__ void __launch_bounds__(threads) general(const float* x, float* y, int64_t m) {
  __shared__ float scratch[threads / 32];
  x += blockIdx.x * m;
  y += blockIdx.x * m;
  float top = -INFINITY;
  for (int64_t j = threadIdx.x; j < m; j += threads) top = fmaxf(top, x[j]);
  top = block_reduce<true>(top, scratch);
  float sum = 0;
  for (int64_t j = threadIdx.x; j < m; j += threads) sum += __expf(x[j] - top);
  float scale = 1.0f / block_reduce<false>(sum, scratch);
  for (int64_t j = threadIdx.x; j < m; j += threads) y[j] = __expf(x[j] - top) * scale;
}

extern "C" void kernel(const float* x, float* y, int64_t n, int64_t m, void* workspace, cudaStream_t stream) {
  if (m % 4 == 0 && m <= 1024) {
    in_registers<1><<<n, threads, 0, stream>>>((const float4*)x, (float4*)y, (int)(m / 4));
  } else if (m % 4 == 0 && m <= 4096) {
    in_registers<4><<<n, threads, 0, stream>>>((const float4*)x, (float4*)y, (int)(m / 4));
  } else {
    general<<<n, threads, 0, stream>>>(x, y, m);
  }
}
