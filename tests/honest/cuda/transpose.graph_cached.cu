// Host entry: a graph is kept for each set of pointers and sizes, at most eight of them, and launched again when they return.
#include <cuda_runtime.h>

#include <deque>
#include <tuple>

namespace {

__global__ void transpose(const float* x, float* y, int64_t n, int64_t m) {
  __shared__ float tile[32][33];
  const int64_t row = blockIdx.y * 32LL, column = blockIdx.x * 32LL;
  for (int r = threadIdx.y; r < 32; r += 8)
    if (row + r < n && column + threadIdx.x < m) tile[r][threadIdx.x] = x[(row + r) * m + column + threadIdx.x];
  __syncthreads();
  for (int r = threadIdx.y; r < 32; r += 8)
    if (column + r < m && row + threadIdx.x < n) y[(column + r) * n + row + threadIdx.x] = tile[threadIdx.x][r];
}

using call = std::tuple<const float*, float*, int64_t, int64_t>;

struct kept {
  call what;
  cudaGraphExec_t exec;
};

std::deque<kept> graphs;
cudaStream_t side = nullptr;

cudaGraphExec_t capture(const call& what) {
  const auto [x, y, n, m] = what;
  if (side == nullptr) cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
  cudaStreamBeginCapture(side, cudaStreamCaptureModeThreadLocal);
  transpose<<<dim3((m + 31) / 32, (n + 31) / 32), dim3(32, 8), 0, side>>>(x, y, n, m);
  cudaGraph_t graph;
  cudaStreamEndCapture(side, &graph);
  cudaGraphExec_t exec;
  cudaGraphInstantiate(&exec, graph, 0);
  cudaGraphDestroy(graph);
  return exec;
}

}  // namespace

extern "C" void kernel(const float* x, float* y, int64_t n, int64_t m, void* workspace, cudaStream_t stream) {
  const call now{x, y, n, m};
  for (const kept& one : graphs) {
    if (one.what == now) {
      cudaGraphLaunch(one.exec, stream);
      return;
    }
  }
  if (graphs.size() == 8) {
    cudaStreamSynchronize(stream);  // it may still run
    cudaGraphExecDestroy(graphs.front().exec);
    graphs.pop_front();
  }
  graphs.push_back({now, capture(now)});
  cudaGraphLaunch(graphs.back().exec, stream);
}
