// The host kernels for AVX2 and FMA.
#define QUERN_ISA x86_64_v3
#define QUERN_VECTOR_BYTES 32
#include "policy/engine/kernels/body.hpp"
