// Host entry: batches go round robin over four own streams; scores live in scratch of the stream-ordered allocator.
#include <cuda_runtime.h>

#include <array>

namespace {

struct crew {
  std::array<cudaStream_t, 4> streams{};
  std::array<cudaEvent_t, 4> done{};
  cudaEvent_t ready = nullptr;
  crew() {
    cudaEventCreateWithFlags(&ready, cudaEventDisableTiming);
    for (auto& one : streams) cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking);
    for (auto& one : done) cudaEventCreateWithFlags(&one, cudaEventDisableTiming);
  }
};

// A block for each query; its scores in scratch.
__global__ void attend(const float* q, const float* k, const float* v, float* y, float* scratch, int64_t n, int64_t d) {
  __shared__ float part[4];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float* s = scratch + blockIdx.x * n;
  const float* query = q + blockIdx.x * d;
  float top = -INFINITY;
  for (int64_t j = warp; j < n; j += 4) {
    float dot = 0;
    for (int64_t t = lane; t < d; t += 32) dot += query[t] * k[j * d + t];
    for (int e = 16; e > 0; e /= 2) dot += __shfl_xor_sync(0xffffffff, dot, e);
    dot *= 0.125f;
    if (lane == 0) s[j] = dot;
    top = fmaxf(top, dot);
  }
  if (lane == 0) part[warp] = top;
  __syncthreads();
  top = fmaxf(fmaxf(part[0], part[1]), fmaxf(part[2], part[3]));
  __syncthreads();
  float sum = 0;
  for (int64_t j = threadIdx.x; j < n; j += 128) {
    s[j] = expf(s[j] - top);
    sum += s[j];
  }
  for (int e = 16; e > 0; e /= 2) sum += __shfl_xor_sync(0xffffffff, sum, e);
  if (lane == 0) part[warp] = sum;
  __syncthreads();
  sum = (part[0] + part[1]) + (part[2] + part[3]);
  for (int64_t t = threadIdx.x; t < d; t += 128) {
    float out = 0;
    for (int64_t j = 0; j < n; ++j) out += s[j] * v[j * d + t];
    y[blockIdx.x * d + t] = out / sum;
  }
}

}  // namespace

extern "C" void kernel(const float* q, const float* k, const float* v, float* y, int64_t b, int64_t n, int64_t d, void* workspace, cudaStream_t stream) {
  static crew all;
  float* scratch = nullptr;
  cudaMallocAsync(&scratch, b * n * n * sizeof(float), stream);
  cudaEventRecord(all.ready, stream);
  for (auto& one : all.streams) cudaStreamWaitEvent(one, all.ready, 0);
  for (int64_t i = 0; i < b; ++i) {
    const int64_t at = i * n * d;
    attend<<<n, 128, 0, all.streams[i % 4]>>>(q + at, k + at, v + at, y + at, scratch + i * n * n, n, d);
  }
  for (int i = 0; i < 4; ++i) {
    cudaEventRecord(all.done[i], all.streams[i]);
    cudaStreamWaitEvent(stream, all.done[i], 0);
  }
  cudaFreeAsync(scratch, stream);
}
