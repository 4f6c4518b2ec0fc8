// The same by a global object, which looks harmless.
static int64_t begin() {
  volatile int64_t turns = 0;
  for (;;) {
    const int64_t next = turns + 1;
    turns = next;
  }
}
static const int64_t started = begin();
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, void* stream) {
  for (int64_t i = 0; i < n; ++i)
    y[i] = 2.0f * x[i] + static_cast<float>(started);
}
