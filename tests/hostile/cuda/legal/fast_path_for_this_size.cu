// Vectors where the size allows it, anything else by elements: special for a size, right for all.
__global__ void affine(const float* x, float* y, int64_t n) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step)
    y[i] = 2.0f * x[i] + 1.0f;
}
__global__ void quads(const float4* x, float4* y, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float4 v = x[i];
  y[i] = make_float4(2 * v.x + 1, 2 * v.y + 1, 2 * v.z + 1, 2 * v.w + 1);
}
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, cudaStream_t stream) {
  if (n % 4 == 0) {
    quads<<<(n / 4 + 255) / 256, 256, 0, stream>>>((const float4*)x, (float4*)y, n / 4);
  } else {
    affine<<<1056, 512, 0, stream>>>(x, y, n);
  }
}
