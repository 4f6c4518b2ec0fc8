extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, void* stream) {
  thread_local float block[64];
  static float other[64] __attribute__((aligned(64)));
  for (int64_t i = 0; i < n; i += 64) {
    const int64_t m = std::min<int64_t>(64, n - i);
    std::memcpy(block, x + i, m * sizeof(float));
    for (int64_t j = 0; j < m; ++j) other[j] = 2.0f * block[j] + 1.0f;
    std::memcpy(y + i, other, m * sizeof(float));
  }
}
