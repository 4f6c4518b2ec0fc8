// Lane `cpp`: kernels in C++ on one core.
#pragma once

#include <cstdint>

#include "env/task/lane.hpp"

namespace quern::env {

extern const lane cpp_lane;

/// Most scratch that a candidate may ask for, bytes.
inline constexpr std::int64_t max_workspace_bytes = std::int64_t{256} << 20;

}  // namespace quern::env
