// A thread for each column of the middle dimension; neighbouring threads read neighbouring columns.
__global__ void log_softmax(const float* __restrict__ x, float* __restrict__ y, int64_t c, int64_t m) {
  const int64_t j = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (j >= m) return;
  x += blockIdx.y * c * m + j;
  y += blockIdx.y * c * m + j;
  float top = x[0], sum = 1.0f;
  for (int64_t i = 1; i < c; ++i) {
    const float v = x[i * m];
    const float now = fmaxf(top, v);
    sum = sum * expf(top - now) + expf(v - now);
    top = now;
  }
  const float shift = top + logf(sum);
  for (int64_t i = 0; i < c; ++i) y[i * m] = x[i * m] - shift;
}

extern "C" void kernel(const float* x, float* y, int64_t n, int64_t c, int64_t m, void* workspace, cudaStream_t stream) {
  log_softmax<<<dim3((m + 127) / 128, n), 128, 0, stream>>>(x, y, c, m);
}
