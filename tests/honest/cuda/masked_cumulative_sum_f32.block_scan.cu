// Kogge-Stone in shared memory over 512 elements at a time.
#define WIDTH 512

__global__ void scan(const float* x, const uint8_t* keep, float* y, int64_t m) {
  __shared__ float line[2][WIDTH];
  const int64_t row = blockIdx.x * m;
  const int t = threadIdx.x;
  float carry = 0;
  for (int64_t base = 0; base < m; base += WIDTH) {
    const int64_t j = base + t;
    line[0][t] = j < m && keep[row + j] != 0 ? x[row + j] : 0.0f;
    __syncthreads();
    int from = 0;
    for (int d = 1; d < WIDTH; d *= 2) {
      line[from ^ 1][t] = t >= d ? line[from][t] + line[from][t - d] : line[from][t];
      from ^= 1;
      __syncthreads();
    }
    if (j < m) y[row + j] = carry + line[from][t];
    carry += line[from][WIDTH - 1];
    __syncthreads();
  }
}

extern "C" void kernel(const float* x, const uint8_t* keep, float* y, int64_t n, int64_t m, void* workspace, cudaStream_t stream) {
  scan<<<n, WIDTH, 0, stream>>>(x, keep, y, m);
}
