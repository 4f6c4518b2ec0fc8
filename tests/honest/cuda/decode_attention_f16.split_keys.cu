// Split over the keys: each block gives maximum, sum and weighted values of 256 keys to the workspace, a second kernel joins them.
#include <cuda_fp16.h>

constexpr int keys = 256;
constexpr int64_t splits_of(int64_t n) { return (n + keys - 1) / keys; }

__global__ void __launch_bounds__(128) partial(const __half* __restrict__ q, const __half* __restrict__ k, const __half* __restrict__ v,
                                               float* parts, int64_t n, int64_t d) {
  __shared__ float p[keys];
  __shared__ float scratch[4];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t batch = blockIdx.y, first = blockIdx.x * (int64_t)keys;
  const int count = n - first < keys ? (int)(n - first) : keys;
  const __half* query = q + batch * d;
  float top = -INFINITY;
  for (int j = warp; j < count; j += 4) {
    const __half* key = k + (batch * n + first + j) * d;
    float dot = 0;
    if (d % 2 == 0) {
      const __half2* a = reinterpret_cast<const __half2*>(query);
      const __half2* b = reinterpret_cast<const __half2*>(key);
      for (int64_t t = lane; t < d / 2; t += 32) {
        const float2 u = __half22float2(a[t]), w = __half22float2(b[t]);
        dot += u.x * w.x + u.y * w.y;
      }
    } else {
      for (int64_t t = lane; t < d; t += 32) dot += __half2float(query[t]) * __half2float(key[t]);
    }
    for (int s = 16; s > 0; s /= 2) dot += __shfl_xor_sync(0xffffffff, dot, s);
    dot *= 0.125f;
    if (lane == 0) p[j] = dot;
    top = fmaxf(top, dot);
  }
  if (lane == 0) scratch[warp] = top;
  __syncthreads();
  top = fmaxf(fmaxf(scratch[0], scratch[1]), fmaxf(scratch[2], scratch[3]));
  __syncthreads();
  float sum = 0;
  for (int j = threadIdx.x; j < count; j += 128) {
    p[j] = expf(p[j] - top);
    sum += p[j];
  }
  for (int s = 16; s > 0; s /= 2) sum += __shfl_xor_sync(0xffffffff, sum, s);
  if (lane == 0) scratch[warp] = sum;
  __syncthreads();
  float* mine = parts + (batch * gridDim.x + blockIdx.x) * (d + 2);
  if (threadIdx.x == 0) {
    mine[0] = top;
    mine[1] = scratch[0] + scratch[1] + scratch[2] + scratch[3];
  }
  for (int64_t t = threadIdx.x; t < d; t += 128) {
    float out = 0;
    for (int j = 0; j < count; ++j) out += p[j] * __half2float(v[(batch * n + first + j) * d + t]);
    mine[2 + t] = out;
  }
}

__global__ void join(const float* parts, __half* y, int64_t splits, int64_t d) {
  const float* mine = parts + blockIdx.x * splits * (d + 2);
  float top = -INFINITY;
  for (int64_t s = 0; s < splits; ++s) top = fmaxf(top, mine[s * (d + 2)]);
  float sum = 0;
  for (int64_t s = 0; s < splits; ++s) sum += mine[s * (d + 2) + 1] * expf(mine[s * (d + 2)] - top);
  for (int64_t t = threadIdx.x; t < d; t += blockDim.x) {
    float out = 0;
    for (int64_t s = 0; s < splits; ++s) out += mine[s * (d + 2) + 2 + t] * expf(mine[s * (d + 2)] - top);
    y[blockIdx.x * d + t] = __float2half(out / sum);
  }
}

extern "C" int64_t workspace_bytes(int64_t b, int64_t n, int64_t d) { return b * splits_of(n) * (d + 2) * 4; }

extern "C" void kernel(const __half* q, const __half* k, const __half* v, __half* y, int64_t b, int64_t n, int64_t d, void* workspace, cudaStream_t stream) {
  partial<<<dim3(splits_of(n), b), 128, 0, stream>>>(q, k, v, (float*)workspace, n, d);
  join<<<b, 64, 0, stream>>>((const float*)workspace, y, splits_of(n), d);
}
