// A warp for each group, its scale and zero point read once.
__global__ void dequantize(const uint8_t* q, const float* scale, const uint8_t* zero, float* y, int64_t groups, int64_t d) {
  const int64_t group = (blockIdx.x * (int64_t)blockDim.x + threadIdx.x) / 32;
  if (group >= groups) return;
  const float factor = scale[group];
  const int middle = zero[group];
  for (int64_t j = threadIdx.x % 32; j < d; j += 32) y[group * d + j] = (float)((int)q[group * d + j] - middle) * factor;
}

extern "C" void kernel(const uint8_t* q, const float* scale, const uint8_t* zero, float* y, int64_t n, int64_t g, int64_t d, void* workspace, cudaStream_t stream) {
  dequantize<<<(n * g + 7) / 8, 256, 0, stream>>>(q, scale, zero, y, n * g, d);
}
