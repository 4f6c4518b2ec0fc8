#include <immintrin.h>
__attribute__((target("avx2,fma"))) extern "C" void kernel(const float* x, float* y, int64_t n, void* workspace, void* stream) {
  const __m256 two = _mm256_set1_ps(2.0f), one = _mm256_set1_ps(1.0f);
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    __m256 v = _mm256_loadu_ps(x + i);
    _mm256_storeu_ps(y + i, _mm256_fmadd_ps(v, two, one));
  }
  for (; i < n; ++i) y[i] = 2.0f * x[i] + 1.0f;
}
