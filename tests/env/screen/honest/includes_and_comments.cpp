/* Own includes of the prelude's headers, comments of all kinds. */
#include <cmath>
#include <cstdint>
#include <immintrin.h>
#  include <algorithm>  // blanks where they may be

// system("rm -rf /"), asm, #include <thread>: in a comment they are only words \
   (this line belongs to the comment too)
extern "C" void kernel(const float* __restrict__ x, float* __restrict__ y, int64_t n, void*, void*) {
  for (int64_t i = 0; i < n; ++i) y[i] = std::fma(2.0f, x[i], 1.0f);  /* fma */
}
