// Lane `pytorch`: Python modules that define ModelNew, on one core.
#pragma once

#include <string>

#include "env/task/lane.hpp"

namespace quern::env {

extern const lane pytorch_lane;

/// cpu-torch and the instruction level of this machine.
std::string torch_device_class();

}  // namespace quern::env
