static const float coefficients[] = {1.0f, 2.0f};
static constexpr int order[4] = {0, 1, 0, 1};
static const char* const names[] = {"scale", "shift"};
constexpr const float* first = coefficients;
alignas(64) static float tile[256];
extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, void* stream) {
  static const float local_table[2] = {2.0f, 1.0f};
  for (int64_t i = 0; i < n; ++i) {
    tile[i % 256] = local_table[0] * x[i];
    y[i] = tile[i % 256] + coefficients[order[2]];
  }
  (void)names;
  (void)first;
}
