// The product goes to the output, which a second kernel normalises group by group in place.
__global__ void linear(const float* x, const float* w, const float* b, float* y, int n, int k, int m) {
  __shared__ float xs[16][17], ws[16][17];
  const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
  const int other = blockIdx.x * 16 + threadIdx.y;
  float sum = 0;
  for (int p = 0; p < k; p += 16) {
    const int q = p + threadIdx.x;
    xs[threadIdx.y][threadIdx.x] = row < n && q < k ? x[(int64_t)row * k + q] : 0.0f;
    ws[threadIdx.y][threadIdx.x] = other < m && q < k ? w[(int64_t)other * k + q] : 0.0f;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 16; ++i) sum += xs[threadIdx.y][i] * ws[threadIdx.x][i];
    __syncthreads();
  }
  if (row < n && column < m) y[(int64_t)row * m + column] = sum + b[column];
}

__global__ void normalise(const float* scale, const float* shift, float* y, int64_t groups, int64_t g, int64_t d) {
  const int64_t item = blockIdx.x * (int64_t)(blockDim.x / 32) + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (item >= groups) return;
  float* row = y + item * d;
  const int64_t first = item % g * d;
  float sum = 0;
  for (int64_t j = lane; j < d; j += 32) sum += row[j];
  for (int s = 16; s > 0; s /= 2) sum += __shfl_xor_sync(0xffffffff, sum, s);
  const float mean = sum / d;
  float squares = 0;
  for (int64_t j = lane; j < d; j += 32) squares += (row[j] - mean) * (row[j] - mean);
  for (int s = 16; s > 0; s /= 2) squares += __shfl_xor_sync(0xffffffff, squares, s);
  const float inverse = rsqrtf(squares / d + 1e-5f);
  for (int64_t j = lane; j < d; j += 32) {
    const float h = (row[j] - mean) * inverse * scale[first + j] + shift[first + j];
    row[j] = fminf(fmaxf(h, -2.0f), 2.0f);
  }
}

extern "C" void kernel(const float* x, const float* w, const float* b, const float* scale, const float* shift, float* y, int64_t n, int64_t k, int64_t g, int64_t d, void* workspace, cudaStream_t stream) {
  const int64_t m = g * d, groups = n * g;
  linear<<<dim3((m + 15) / 16, (n + 15) / 16), dim3(16, 16), 0, stream>>>(x, w, b, y, n, k, m);
  normalise<<<(groups + 7) / 8, 256, 0, stream>>>(scale, shift, y, groups, g, d);
}
