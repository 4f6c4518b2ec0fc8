// A warp for each query: scores of 32 keys at a time, online softmax, the sum over values in registers (by d, at most 256).
template <int Slices>
__global__ void attend(const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v, float* __restrict__ y,
                       int64_t rows, int64_t n, int64_t d) {
  extern __shared__ float queries[];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t row = blockIdx.x * (int64_t)(blockDim.x / 32) + warp;
  if (row >= rows) return;
  float* mine = queries + warp * d;
  for (int64_t t = lane; t < d; t += 32) mine[t] = q[row * d + t] * 0.125f;
  __syncwarp();
  const float* keys = k + row / n * n * d;
  const float* values = v + row / n * n * d;
  float top = -INFINITY, sum = 0;
  float out[Slices] = {};
  for (int64_t base = 0; base < n; base += 32) {
    float score = -INFINITY;
    if (base + lane < n) {
      score = 0;
      for (int64_t t = 0; t < d; ++t) score = fmaf(mine[t], keys[(base + lane) * d + t], score);
    }
    float highest = score;
    for (int s = 16; s > 0; s /= 2) highest = fmaxf(highest, __shfl_xor_sync(0xffffffff, highest, s));
    const float now = fmaxf(top, highest);
    const float shrink = expf(top - now);
    const float p = expf(score - now);
    float total = p;
    for (int s = 16; s > 0; s /= 2) total += __shfl_xor_sync(0xffffffff, total, s);
    sum = sum * shrink + total;
    top = now;
#pragma unroll
    for (int s = 0; s < Slices; ++s) out[s] *= shrink;
    const int count = n - base < 32 ? (int)(n - base) : 32;
    for (int j = 0; j < count; ++j) {
      const float weight = __shfl_sync(0xffffffff, p, j);
#pragma unroll
      for (int s = 0; s < Slices; ++s)
        if (s * 32 + lane < d) out[s] = fmaf(weight, values[(base + j) * d + s * 32 + lane], out[s]);
    }
  }
#pragma unroll
  for (int s = 0; s < Slices; ++s)
    if (s * 32 + lane < d) y[row * d + s * 32 + lane] = out[s] / sum;
}

// Any d: one thread a query and result, three passes over the keys.
__global__ void attend_slowly(const float* q, const float* k, const float* v, float* y, int64_t rows, int64_t n, int64_t d) {
  const int64_t e = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (e >= rows * d) return;
  const int64_t row = e / d, first = row / n * n;
  float top = -INFINITY, sum = 0, out = 0;
  for (int pass = 0; pass < 2; ++pass) {
    for (int64_t j = 0; j < n; ++j) {
      float dot = 0;
      for (int64_t t = 0; t < d; ++t) dot += q[row * d + t] * k[(first + j) * d + t];
      dot *= 0.125f;
      if (pass == 0) {
        top = fmaxf(top, dot);
      } else {
        const float p = expf(dot - top);
        sum += p;
        out += p * v[(first + j) * d + e % d];
      }
    }
  }
  y[e] = out / sum;
}

extern "C" void kernel(const float* q, const float* k, const float* v, float* y, int64_t b, int64_t n, int64_t d, void* workspace, cudaStream_t stream) {
  const int64_t rows = b * n, blocks = (rows + 3) / 4, bytes = 4 * d * sizeof(float);
  if (d <= 32) {
    attend<1><<<blocks, 128, bytes, stream>>>(q, k, v, y, rows, n, d);
  } else if (d <= 64) {
    attend<2><<<blocks, 128, bytes, stream>>>(q, k, v, y, rows, n, d);
  } else if (d <= 256) {
    attend<8><<<blocks, 128, bytes, stream>>>(q, k, v, y, rows, n, d);
  } else {
    attend_slowly<<<(rows * d + 127) / 128, 128, 0, stream>>>(q, k, v, y, rows, n, d);
  }
}
