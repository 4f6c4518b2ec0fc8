// Scores, softmax in place in the workspace, weighted sum: as the reference does it, one thread or warp an item.
__global__ void scores(const float* q, const float* k, float* s, int64_t b, int64_t n, int64_t d) {
  const int64_t e = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (e >= b * n * n) return;
  const int64_t j = e % n, i = e / n % n, batch = e / (n * n);
  float dot = 0;
  for (int64_t t = 0; t < d; ++t) dot += q[(batch * n + i) * d + t] * k[(batch * n + j) * d + t];
  s[e] = dot * 0.125f;
}

__global__ void softmax(float* s, int64_t n) {
  float* row = s + blockIdx.x * n;
  float top = -INFINITY;
  for (int64_t j = threadIdx.x; j < n; j += 32) top = fmaxf(top, row[j]);
  for (int d = 16; d > 0; d /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, d));
  float sum = 0;
  for (int64_t j = threadIdx.x; j < n; j += 32) {
    row[j] = expf(row[j] - top);
    sum += row[j];
  }
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffff, sum, d);
  for (int64_t j = threadIdx.x; j < n; j += 32) row[j] /= sum;
}

__global__ void weigh(const float* s, const float* v, float* y, int64_t n, int64_t d) {
  const int64_t row = blockIdx.x;
  const int64_t batch = row / n;
  for (int64_t t = threadIdx.x; t < d; t += blockDim.x) {
    float sum = 0;
    for (int64_t j = 0; j < n; ++j) sum += s[row * n + j] * v[(batch * n + j) * d + t];
    y[row * d + t] = sum;
  }
}

extern "C" int64_t workspace_bytes(int64_t b, int64_t n, int64_t d) { return 4 * b * n * n; }

extern "C" void kernel(const float* q, const float* k, const float* v, float* y, int64_t b, int64_t n, int64_t d, void* workspace, cudaStream_t stream) {
  float* s = (float*)workspace;
  scores<<<(b * n * n + 127) / 128, 128, 0, stream>>>(q, k, s, b, n, d);
  softmax<<<b * n, 32, 0, stream>>>(s, n);
  weigh<<<b * n, 64, 0, stream>>>(s, v, y, n, d);
}
