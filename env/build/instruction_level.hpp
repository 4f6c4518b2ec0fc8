// The instruction level that kernels are compiled for, and with it the device class of a core.
#pragma once

#include <string>

namespace quern::env {

/// `avx512`, `avx2`, `sse2` or `neon`: what -march=native finds here. QUERN_INSTRUCTION_LEVEL=avx2
/// or sse2 in the environment lowers it (never raises it), so that a corpus for small machines can
/// be verified and timed on a large one. Read once per process.
const std::string& instruction_level();

/// The compiler's flag for it: -march=native, or the named level where it was lowered.
const std::string& march_flag();

}  // namespace quern::env
