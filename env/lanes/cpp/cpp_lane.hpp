// Lane `cpp`: kernels in C++ on one core.
#pragma once

#include <string>

#include "env/task/lane.hpp"

namespace quern::env {

extern const lane cpp_lane;

/// `cpp-avx512`, `cpp-avx2`, `cpp-sse2` or `cpp-neon`: the instruction level that -march=native
/// finds here. The list is closed: speed-ups, exemplars and "best known" are kept by it.
std::string cpu_device_class();

}  // namespace quern::env
