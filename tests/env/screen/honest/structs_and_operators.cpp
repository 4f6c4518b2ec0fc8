struct affine {
  float a, b;
  float operator()(float v) const { return a * v + b; }
  static affine make() { return {2.0f, 1.0f}; }
  static constexpr int width = 8;
};
struct view {
  const float* data;
  const float& operator[](int64_t i) const { return data[i]; }
};
view* operator+(view* v, affine) { return v; }
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, void* stream) {
  const affine f = affine::make();
  const view v{x};
  for (int64_t i = 0; i < n; ++i) y[i] = f(v[i]);
}
