// Factor and offset of each plane by one kernel, applied by another over everything, in vectors where planes allow it.
__global__ void __launch_bounds__(256) statistics(const float* x, const float* scale, const float* shift, float2* out, int64_t c, int64_t area) {
  __shared__ float part[8];
  const float* plane = x + blockIdx.x * area;
  float sum = 0;
  for (int64_t i = threadIdx.x; i < area; i += 256) sum += plane[i];
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffff, sum, d);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0;
  for (int w = 0; w < 8; ++w) sum += part[w];
  const float mean = sum / area;
  __syncthreads();
  float squares = 0;
  for (int64_t i = threadIdx.x; i < area; i += 256) squares += (plane[i] - mean) * (plane[i] - mean);
  for (int d = 16; d > 0; d /= 2) squares += __shfl_xor_sync(0xffffffff, squares, d);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = squares;
  __syncthreads();
  if (threadIdx.x == 0) {
    squares = 0;
    for (int w = 0; w < 8; ++w) squares += part[w];
    const int64_t channel = blockIdx.x % c;
    const float factor = rsqrtf(squares / area + 1e-5f) * scale[channel];
    out[blockIdx.x] = make_float2(factor, shift[channel] - mean * factor);
  }
}

__global__ void apply_four(const float4* x, const float2* stats, float4* y, int64_t count, int64_t vectors) {
  for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < count; i += (int64_t)gridDim.x * blockDim.x) {
    const float2 s = stats[i / vectors];
    const float4 v = x[i];
    y[i] = make_float4(fmaf(v.x, s.x, s.y), fmaf(v.y, s.x, s.y), fmaf(v.z, s.x, s.y), fmaf(v.w, s.x, s.y));
  }
}

__global__ void apply_one(const float* x, const float2* stats, float* y, int64_t count, int64_t area) {
  const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < count) y[i] = fmaf(x[i], stats[i / area].x, stats[i / area].y);
}

extern "C" int64_t workspace_bytes(int64_t n, int64_t c, int64_t h, int64_t w) { return n * c * sizeof(float2); }

extern "C" void kernel(const float* x, const float* scale, const float* shift, float* y, int64_t n, int64_t c, int64_t h, int64_t w, void* workspace, cudaStream_t stream) {
  float2* stats = static_cast<float2*>(workspace);
  const int64_t area = h * w, count = n * c * area;
  statistics<<<n * c, 256, 0, stream>>>(x, scale, shift, stats, c, area);
  if (area % 4 == 0) {
    apply_four<<<count / 4 < 132 * 2048 ? (count / 4 + 255) / 256 : 132 * 8, 256, 0, stream>>>((const float4*)x, stats, (float4*)y, count / 4, area / 4);
  } else {
    apply_one<<<(count + 255) / 256, 256, 0, stream>>>(x, stats, y, count, area);
  }
}
