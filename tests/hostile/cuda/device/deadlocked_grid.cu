// A barrier over more blocks than fit: those that wait keep the others from starting.
__device__ volatile int arrived;
__global__ void affine(const float* x, float* y, int64_t n) {
  if (threadIdx.x == 0) {
    atomicAdd(const_cast<int*>(&arrived), 1);
    while (arrived < static_cast<int>(gridDim.x)) {
    }
  }
  __syncthreads();
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i] + 1.0f;
}
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, cudaStream_t stream) {
  affine<<<(n + 1023) / 1024, 1024, 0, stream>>>(x, y, n);
}
