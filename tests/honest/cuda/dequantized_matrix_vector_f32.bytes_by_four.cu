// The weights are never widened in memory: a warp for each row, four bytes a lane, the scale once at the end.
__global__ void matrix_vector(const uint8_t* __restrict__ w, const float* __restrict__ scale, const float* __restrict__ x,
                              float* __restrict__ y, int64_t n, int64_t k) {
  const int64_t row = blockIdx.x * 8LL + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (row >= n) return;
  const uint8_t* weights = w + row * k;
  float sum = 0;
  if (k % 4 == 0) {
    const uchar4* four = reinterpret_cast<const uchar4*>(weights);
    const float4* v = reinterpret_cast<const float4*>(x);
    for (int64_t p = lane; p < k / 4; p += 32) {
      const uchar4 a = four[p];
      const float4 b = v[p];
      sum += ((float)a.x - 128.0f) * b.x + ((float)a.y - 128.0f) * b.y + ((float)a.z - 128.0f) * b.z + ((float)a.w - 128.0f) * b.w;
    }
  } else {
    for (int64_t p = lane; p < k; p += 32) sum += ((float)weights[p] - 128.0f) * x[p];
  }
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffff, sum, d);
  if (lane == 0) y[row] = sum * scale[row];
}

extern "C" void kernel(const uint8_t* w, const float* scale, const float* x, float* y, int64_t n, int64_t k, void* workspace, cudaStream_t stream) {
  matrix_vector<<<(n + 7) / 8, 256, 0, stream>>>(w, scale, x, y, n, k);
}
