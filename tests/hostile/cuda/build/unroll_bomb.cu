// Unrolled completely: a million statements of which none can go.
__global__ void affine(const float* x, float* y, int64_t n) {
  float s = x[threadIdx.x];
#pragma unroll
  for (int i = 0; i < 1024; ++i) {
#pragma unroll
    for (int j = 0; j < 1024; ++j)
      s = __sinf(s * x[(i * 1024 + j) % n]) + i;
  }
  y[threadIdx.x] = s;
}
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, cudaStream_t stream) {
  affine<<<1, 32, 0, stream>>>(x, y, n);
}
