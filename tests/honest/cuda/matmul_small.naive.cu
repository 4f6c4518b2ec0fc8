// A thread for each element of the product.
__global__ void matmul(const float* x, const float* w, float* y, int64_t n, int64_t k, int64_t m) {
  int64_t j = blockIdx.x * blockDim.x + threadIdx.x;
  int64_t i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i >= n || j >= m) return;
  float sum = 0.0f;
  for (int64_t p = 0; p < k; p++) sum += x[i * k + p] * w[p * m + j];
  y[i * m + j] = sum;
}

extern "C" void kernel(const float* x, const float* w, float* y, int64_t n, int64_t k, int64_t m, void* workspace, cudaStream_t stream) {
  dim3 block(32, 8);
  dim3 grid((m + block.x - 1) / block.x, (n + block.y - 1) / block.y);
  matmul<<<grid, block, 0, stream>>>(x, w, y, n, k, m);
}
