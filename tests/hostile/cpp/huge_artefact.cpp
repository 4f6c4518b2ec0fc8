// Fills the disk with what it is compiled to.
char ballast[1 << 28] = {1};
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, void* stream) {
  for (int64_t i = 0; i < n; ++i)
    y[i] = 2.0f * x[i] + ballast[0];
}
