#define BLOCK 1024
#define PREFETCH_AHEAD (64 / sizeof(float) * 8)
extern "C" {
static inline float one(float v) { return 2.0f * v + 1.0f; }
void kernel(const float* x, float* y, int64_t n, void* workspace, void* stream) {
#pragma GCC ivdep
  for (int64_t b = 0; b < n; b += BLOCK) {
    int64_t end = b + BLOCK < n ? b + BLOCK : n;
#pragma GCC unroll 8
    for (int64_t i = b; i < end; ++i) {
      __builtin_prefetch(x + i + PREFETCH_AHEAD, 0, 3);
      y[i] = one(x[i]);
    }
  }
}
}
