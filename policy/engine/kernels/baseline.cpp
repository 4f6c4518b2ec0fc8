// The host kernels for every CPU of the architecture.
#define QUERN_ISA baseline
#define QUERN_VECTOR_BYTES 16
#include "policy/engine/kernels/body.hpp"
