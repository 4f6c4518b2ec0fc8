#pragma GCC optimize("O3,unroll-loops")
#define UNROLL 4
extern "C" void kernel(const float* __restrict x, float* __restrict y, int64_t n, void* workspace, void* stream) {
  int64_t i = 0;
  for (; i + UNROLL <= n; i += UNROLL) {
    y[i + 0] = 2.0f * x[i + 0] + 1.0f;
    y[i + 1] = 2.0f * x[i + 1] + 1.0f;
    y[i + 2] = 2.0f * x[i + 2] + 1.0f;
    y[i + 3] = 2.0f * x[i + 3] + 1.0f;
  }
  for (; i < n; ++i) y[i] = 2.0f * x[i] + 1.0f;
}
