// Recursion without end on the device's stack.
__device__ __noinline__ float deeper(float v, int depth) {
  volatile float frame[64];
  for (int i = 0; i < 64; ++i)
    frame[i] = v;
  return depth == -1 ? v : deeper(frame[depth & 63], depth + 1) + frame[3];
}
__global__ void fall(const float* x, float* y) {
  y[threadIdx.x] = deeper(x[0], 0);
}
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, cudaStream_t stream) {
  fall<<<132, 256, 0, stream>>>(x, y);
}
