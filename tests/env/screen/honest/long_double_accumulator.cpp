using real = long double;
static real accumulate(const float* x, int64_t n) {
  real sum = 0, correction = 0;
  for (int64_t i = 0; i < n; ++i) {
    const real term = x[i] - correction;
    const real next = sum + term;
    correction = (next - sum) - term;
    sum = next;
  }
  return sum;
}
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, void* stream) {
  const real total = accumulate(x, n);
  for (int64_t i = 0; i < n; ++i) y[i] = 2.0f * x[i] + 1.0f + 0.0f * static_cast<float>(total);
}
