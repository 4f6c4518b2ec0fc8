// Pieces of rows in parallel: sums of the pieces, a scan of the sums in place in the workspace, then each piece from its start.
#define PIECE 512

__global__ void sum_pieces(const float* x, float* sums, int64_t m, int64_t pieces) {
  const int64_t first = blockIdx.x * (int64_t)PIECE;
  const float* row = x + blockIdx.y * m;
  float sum = 0;
  for (int j = threadIdx.x; j < PIECE && first + j < m; j += 32) sum += row[first + j];
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffff, sum, d);
  if (threadIdx.x == 0) sums[blockIdx.y * pieces + blockIdx.x] = sum;
}

__global__ void scan_sums(float* sums, int64_t n, int64_t pieces) {
  const int64_t row = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (row >= n) return;
  float before = 0;
  for (int64_t p = 0; p < pieces; ++p) {
    float sum = sums[row * pieces + p];
    sums[row * pieces + p] = before;
    before += sum;
  }
}

__global__ void scan_pieces(const float* x, const float* starts, float* y, int64_t m, int64_t pieces) {
  const int64_t first = blockIdx.x * (int64_t)PIECE;
  float carry = starts[blockIdx.y * pieces + blockIdx.x];
  for (int base = 0; base < PIECE && first + base < m; base += 32) {
    const int64_t j = first + base + threadIdx.x;
    float v = j < m ? x[blockIdx.y * m + j] : 0.0f;
    for (int d = 1; d < 32; d *= 2) {
      float left = __shfl_up_sync(0xffffffff, v, d);
      if (threadIdx.x >= d) v += left;
    }
    v += carry;
    if (j < m) y[blockIdx.y * m + j] = v;
    carry = __shfl_sync(0xffffffff, v, 31);
  }
}

extern "C" int64_t workspace_bytes(int64_t n, int64_t m) { return n * ((m + PIECE - 1) / PIECE) * 4; }

extern "C" void kernel(const float* x, float* y, int64_t n, int64_t m, void* workspace, cudaStream_t stream) {
  float* sums = (float*)workspace;
  const int64_t pieces = (m + PIECE - 1) / PIECE;
  // A grid has at most 65535 blocks in y: longer tensors go in several launches.
  for (int64_t row = 0; row < n; row += 65535) {
    const int64_t rows = n - row < 65535 ? n - row : 65535;
    dim3 grid(pieces, rows);
    sum_pieces<<<grid, 32, 0, stream>>>(x + row * m, sums + row * pieces, m, pieces);
    scan_sums<<<(rows + 127) / 128, 128, 0, stream>>>(sums + row * pieces, rows, pieces);
    scan_pieces<<<grid, 32, 0, stream>>>(x + row * m, sums + row * pieces, y + row * m, m, pieces);
  }
}
