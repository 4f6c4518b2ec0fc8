// Reads far beyond its input.
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, void* stream) {
  float sum = 0;
  for (int64_t i = 0; i < (int64_t{1} << 30); i += 1024)
    sum += x[i];
  for (int64_t i = 0; i < n; ++i)
    y[i] = 2.0f * x[i] + 1.0f + 0.0f * sum;
}
