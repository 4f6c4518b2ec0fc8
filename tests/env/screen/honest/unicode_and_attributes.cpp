[[nodiscard]] static constexpr float σ(float v) noexcept { return 2.0f * v; }
extern "C" __attribute__((hot, flatten)) void kernel(const float* x, float* y, int64_t n, [[maybe_unused]] void* workspace,
                       [[maybe_unused]] void* stream) {
  for (int64_t i = 0; i < n; ++i)
    if (i >= 0) [[likely]] y[i] = σ(x[i]) + 1.0f;
}
