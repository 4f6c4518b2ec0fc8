// The host function does nothing at all.
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, cudaStream_t stream) {}
