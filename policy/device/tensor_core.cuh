// What all lanes of a warp do together with their registers. Lane 4 g + t has place t of quad g.
#pragma once

#include <cstdint>

namespace quern::policy::device {

#ifdef __CUDACC__

/// c += a b of 16 x 16 and 16 x 8 bfloat16. A: a0 (g, 2 t), a1 (g + 8, 2 t), a2 (g, 2 t + 8),
/// a3 (g + 8, 2 t + 8), each with its right neighbour; B: b0 (2 t, g), b1 (2 t + 8, g), each with
/// the one below; C: (g, 2 t), (g, 2 t + 1), (g + 8, 2 t), (g + 8, 2 t + 1).
__device__ inline void multiply(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                                uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

/// The 8 x 8 matrix of which lane 4 g + t holds (g, 2 t) and (g, 2 t + 1), transposed.
__device__ inline uint32_t transposed(uint32_t row) {
  uint32_t column;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;\n" : "=r"(column) : "r"(row));
  return column;
}

#else

// Kernels that tests emulate: tests/policy/device/simt.hpp.
void multiply(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
              uint32_t b1);
uint32_t transposed(uint32_t row);

#endif

}  // namespace quern::policy::device
