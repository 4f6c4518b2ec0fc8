// Lane `cpp`: kernels in C++ on one core.
#pragma once

#include "env/task/lane.hpp"

namespace quern::env {

extern const lane cpp_lane;

}  // namespace quern::env
