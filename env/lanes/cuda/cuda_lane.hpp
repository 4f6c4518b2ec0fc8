// Lane `cuda`: kernels in CUDA C++ on a GPU.
#pragma once

#include "env/task/lane.hpp"

namespace quern::env {

extern const lane cuda_lane;

}  // namespace quern::env
