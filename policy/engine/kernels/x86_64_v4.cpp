// The host kernels for AVX-512.
#define QUERN_ISA x86_64_v4
#define QUERN_VECTOR_BYTES 64
#include "policy/engine/kernels/body.hpp"
