// Keeps the compiler busy for ever.
template <int N, int M>
struct twice {
  static constexpr int value = twice<N - 1, M>::value + twice<N - 1, M + (1 << N)>::value;
};
template <int M>
struct twice<0, M> {
  static constexpr int value = M;
};
static const int huge = twice<28, 0>::value;
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, void* stream) {
  for (int64_t i = 0; i < n; ++i)
    y[i] = 2.0f * x[i] + static_cast<float>(huge != 0);
}
