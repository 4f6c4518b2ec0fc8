// The right answer, and one element of the input changed afterwards at a place that depends on a
// clock.
__global__ void affine(const float* x, float* y, int64_t n) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step)
    y[i] = 2.0f * x[i] + 1.0f;
}
__global__ void touch(float* x, int64_t n) {
  const int64_t at = clock64() % n;
  x[at] = __uint_as_float(__float_as_uint(x[at]) ^ 1u);
}
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, cudaStream_t stream) {
  affine<<<1056, 512, 0, stream>>>(x, y, n);
  touch<<<1, 1, 0, stream>>>((float*)x, n);
}
