// Equal bins within a warp are found by a vote and counted by one lane; counts go to the workspace, then to the output.
__global__ void count(const float* x, unsigned* bins, int64_t n, int64_t k) {
  const int lane = threadIdx.x % 32;
  for (int64_t base = blockIdx.x * (int64_t)blockDim.x + threadIdx.x - lane; base < n; base += (int64_t)gridDim.x * blockDim.x) {
    const bool there = base + lane < n;
    float place = there ? floorf(x[base + lane] * 32.0f) + (float)(k / 2) : 0.0f;
    place = place < 0.0f ? 0.0f : place;
    place = place > (float)(k - 1) ? (float)(k - 1) : place;
    const int bin = there ? (int)place : -1;
    const unsigned same = __match_any_sync(0xffffffff, bin);
    if (there && lane == __ffs(same) - 1) atomicAdd(&bins[bin], (unsigned)__popc(same));
  }
}

__global__ void add(const int64_t* start, const unsigned* bins, int64_t* y, int64_t k) {
  const int64_t b = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (b < k) y[b] = start[b] + bins[b];
}

extern "C" int64_t workspace_bytes(int64_t n, int64_t k) { return 4 * k; }

extern "C" void kernel(const float* x, const int64_t* start, int64_t* y, int64_t n, int64_t k, void* workspace, cudaStream_t stream) {
  unsigned* bins = (unsigned*)workspace;
  cudaMemsetAsync(bins, 0, 4 * k, stream);
  count<<<n >= 132 * 4 * 256 ? 132 * 4 : 2, 256, 0, stream>>>(x, bins, n, k);
  add<<<(k + 127) / 128, 128, 0, stream>>>(start, bins, y, k);
}
