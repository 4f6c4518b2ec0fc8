// Writes more than it was given.
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, void* stream) {
  for (int64_t i = 0; i < n; ++i)
    y[i] = 2.0f * x[i] + 1.0f;
  for (int64_t i = n; i < n + 2048; ++i)
    y[i] = 1.0f;
}
