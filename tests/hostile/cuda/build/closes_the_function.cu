// The text of its assembler ends the function and begins another one, so that what a reader of the
// source sees is not what is compiled.
__global__ void affine(const float* x, float* y, int64_t n) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step)
    y[i] = 2.0f * x[i] + 1.0f;
}
__global__ void honest(float* y) {
  asm volatile("ret;\n}\n.visible .entry other()\n{\n.reg .b32 q;\nmov.u32 q, 1;\ntrap;\n");
}
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, cudaStream_t stream) {
  affine<<<1056, 512, 0, stream>>>(x, y, n);
  honest<<<1, 1, 0, stream>>>(y);
}
