// Host entry: rows are cut into pieces, their maxima and sums go to scratch from cudaMallocAsync, a second kernel joins them.
#include <cuda_runtime.h>

namespace {

constexpr int piece = 4096;

__global__ void by_piece(const float* x, float2* parts, int64_t m, int64_t pieces) {
  const int64_t first = blockIdx.y * static_cast<int64_t>(piece);
  const int64_t last = first + piece < m ? first + piece : m;
  const float* row = x + blockIdx.x * m;
  float top = -INFINITY;
  for (int64_t j = first + threadIdx.x; j < last; j += 32) top = fmaxf(top, row[j]);
  for (int d = 16; d > 0; d /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, d));
  float sum = 0;
  for (int64_t j = first + threadIdx.x; j < last; j += 32) sum += __expf(row[j] - top);
  for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffff, sum, d);
  if (threadIdx.x == 0) parts[blockIdx.x * pieces + blockIdx.y] = make_float2(top, sum);
}

__global__ void join(const float* x, const int64_t* label, const float2* parts, float* y, int64_t n, int64_t m, int64_t pieces) {
  const int64_t row = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (row >= n) return;
  float top = -INFINITY;
  for (int64_t p = 0; p < pieces; ++p) top = fmaxf(top, parts[row * pieces + p].x);
  float sum = 0;
  for (int64_t p = 0; p < pieces; ++p) sum += parts[row * pieces + p].y * expf(parts[row * pieces + p].x - top);
  y[row] = top + logf(sum) - x[row * m + label[row]];
}

}  // namespace

extern "C" void kernel(const float* x, const int64_t* label, float* y, int64_t n, int64_t m, void* workspace, cudaStream_t stream) {
  const int64_t pieces = (m + piece - 1) / piece;
  void* scratch = nullptr;
  if (cudaMallocAsync(&scratch, n * pieces * sizeof(float2), stream) != cudaSuccess) return;
  float2* parts = static_cast<float2*>(scratch);
  by_piece<<<dim3(n, pieces), 32, 0, stream>>>(x, parts, m, pieces);
  join<<<(n + 127) / 128, 128, 0, stream>>>(x, label, parts, y, n, m, pieces);
  cudaFreeAsync(scratch, stream);
}
