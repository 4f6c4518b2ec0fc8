// From a launch plan's symbolic steps to what a runner on a device performs.
#pragma once

#include <span>

#include "base/status.hpp"
#include "env/gpu/calls.hpp"
#include "env/gpu/link.hpp"
#include "env/lanes/cuda/launch/launch_plan.hpp"

namespace quern::env {

/// Steps of one call of `of`, with pointers as places in regions. Error (invalid_argument): more
/// parameters of a launch, or more kernels, than a runner takes.
base::expected<device_program> make_device_program(std::span<const launch_step> steps,
                                                   const device_instance& of);

}  // namespace quern::env
