// Words that are harmless where they stand.
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, void* stream) {
  int thread = 0, system = 2, signal = 1, clock = 0, read = 0, open = 0;
  const char* note = "asm __LINE__ extern socket #include <thread>";
  auto select = [](bool c, float a, float b) { return c ? a : b; };
  auto write = [&](int64_t i, float v) { y[i] = v; };
  for (int64_t i = 0; i < n; ++i) write(i, select(true, system * x[i] + signal, 0.0f));
  goto exit;
exit:
  (void)note; (void)thread; (void)clock; (void)read; (void)open;
}
