// Kernels of the policy on the emulation of CUDA threads that candidates are checked with
// (tests/honest/cuda/emulation): what it lacks for them, and CUDA's `__shared__` as it stands in
// their text. A missing barrier shows only if one of the emulation's orders of threads runs into it
// (the one before shared memory is used again does not). One block at a time. Comes before the
// kernel's own header.
#pragma once

#include <cstdint>
#include <cstring>

#include <emulate.hpp>

// The blocks of a launch run one after the other, so that one copy is enough.
#undef __shared__
#define __shared__ static

/// Bytes of y and x, those of x first, chosen by the nibbles of `how`.
inline std::uint32_t __byte_perm(std::uint32_t x, std::uint32_t y, std::uint32_t how) {
  const std::uint64_t both = x | static_cast<std::uint64_t>(y) << 32U;
  std::uint32_t result = 0;
  for (unsigned i = 0; i < 4; ++i)
    result |= static_cast<std::uint32_t>(both >> (8 * ((how >> (4 * i)) & 7U)) & 0xffU) << (8 * i);
  return result;
}

namespace quern::policy::device {

inline void multiply(float (&c)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2,
                     std::uint32_t a3, std::uint32_t b0, std::uint32_t b1) {
  mma_bf16(c, {a0, a1, a2, a3}, {b0, b1});
}

inline std::uint32_t transposed(std::uint32_t row) {
  const int lane = emu::self->rank % 32, g = lane / 4, t = lane % 4;
  // (r, c) is with lane 4 r + c / 2; this one wants (2 t, g) and (2 t + 1, g).
  const std::uint32_t upper = __shfl_sync(~0U, row, 8 * t + g / 2),
                      lower = __shfl_sync(~0U, row, 8 * t + 4 + g / 2);
  return __byte_perm(upper, lower, g % 2 == 0 ? 0x5410 : 0x7632);
}

}  // namespace quern::policy::device
