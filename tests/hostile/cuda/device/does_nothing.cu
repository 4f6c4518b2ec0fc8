// Launches a kernel that writes nothing.
__global__ void nothing(float* y) {
  if (y == nullptr) asm volatile("trap;");
}
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, cudaStream_t stream) {
  nothing<<<1, 32, 0, stream>>>(y);
}
