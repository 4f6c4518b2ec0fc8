extern "C" int64_t workspace_bytes(int64_t n) { return n * static_cast<int64_t>(sizeof(double)); }
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, void* stream) {
  double* scratch = static_cast<double*>(workspace);
  for (int64_t i = 0; i < n; ++i) scratch[i] = 2.0 * x[i];
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<float>(scratch[i] + 1.0);
}
