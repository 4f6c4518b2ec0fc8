template <int Width, typename T>
static T* advance_by(T* p) { return p + Width; }
template <class F>
[[gnu::always_inline]] inline void for_all(int64_t n, F&& f) {
  for (int64_t i = 0; i < n; ++i) f(i);
}
constexpr auto affine = [](float v) { return 2.0f * v + 1.0f; };
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, void* stream) {
  for_all(n, [&](int64_t i) { y[i] = affine(x[i]); });
  (void)advance_by<1>(y);
}
