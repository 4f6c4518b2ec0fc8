// Asks for more scratch memory than there is.
extern "C" int64_t workspace_bytes(int64_t n) {
  return int64_t{1} << 50;
}
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, void* stream) {
  for (int64_t i = 0; i < n; ++i)
    y[i] = 2.0f * x[i] + 1.0f;
}
