// A kernel whose name is an expression with side effects on whoever asks the compiler for it.
template <auto F>
__global__ void affine(const float* x, float* y, int64_t n) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step)
    y[i] = F(x[i]);
}
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, cudaStream_t stream) {
  affine<([](float v) { return 2.0f * v + 1.0f; })><<<1056, 512, 0, stream>>>(x, y, n);
}
