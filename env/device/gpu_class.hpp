// Classes of GPUs: kinds whose times may be compared.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace quern::env {

/// "H200-SXM" and its like from what the driver calls a device; unknown ones by their own name with
/// hyphens.
std::string gpu_device_class(std::string_view name);

/// Dense multiply-adds in bfloat16 on tensor cores, operations a second, as NVIDIA states them for
/// this class. None: a class whose figure this build does not know.
std::optional<double> peak_bf16_flops(std::string_view device_class);

/// Class of the GPU with this number (the driver's). Asks CUDA only where the driver's files do not
/// tell. Error: unavailable: there is no driver, or no such GPU.
base::expected<std::string> gpu_device_class_of(int number);

}  // namespace quern::env
