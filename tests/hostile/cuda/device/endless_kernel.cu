// Never ends.
__global__ void spin(volatile float* y) {
  while (y[0] != 1.2345e30f) {
  }
}
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, cudaStream_t stream) {
  spin<<<132, 32, 0, stream>>>(y);
}
