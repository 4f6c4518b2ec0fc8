// Partial sums of pieces of rows into the workspace, then a second kernel adds them up: the same bits every time.
constexpr int64_t piece = 1024;
constexpr int64_t pieces_of(int64_t m) { return (m + piece - 1) / piece; }

__global__ void partial(const float* x, float* parts, int64_t n, int64_t m, int64_t pieces) {
  const int64_t item = blockIdx.x * (int64_t)4 + threadIdx.y;
  if (item >= n * pieces) return;
  const int64_t row = item / pieces, first = item % pieces * piece;
  const int64_t last = min(first + piece, m);
  float sum = 0;
  for (int64_t j = first + threadIdx.x; j < last; j += 32) sum += x[row * m + j];
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffff, sum, d);
  if (threadIdx.x == 0) parts[item] = sum;
}

__global__ void finish(const float* parts, float* y, int64_t n, int64_t pieces) {
  const int64_t row = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (row >= n) return;
  float sum = 0;
  for (int64_t p = 0; p < pieces; ++p) sum += parts[row * pieces + p];
  y[row] = sum;
}

extern "C" int64_t workspace_bytes(int64_t n, int64_t m) { return n * pieces_of(m) * 4; }

extern "C" void kernel(const float* x, float* y, int64_t n, int64_t m, void* workspace, cudaStream_t stream) {
  float* parts = static_cast<float*>(workspace);
  const int64_t items = n * pieces_of(m);
  partial<<<(items + 3) / 4, dim3(32, 4), 0, stream>>>(x, parts, n, m, pieces_of(m));
  finish<<<(n + 127) / 128, 128, 0, stream>>>(parts, y, n, pieces_of(m));
}
