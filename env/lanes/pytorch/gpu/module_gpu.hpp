// The GPUs of this machine, as lane `pytorch` uses them. Tests link others in place of these.
#pragma once

#include <string>

#include "base/status.hpp"
#include "env/device/context_part.h"
#include "env/sandbox/gpu_access.hpp"

namespace quern::env {

/// What is needed beside Python and the programs. Error (unavailable): what is missing.
base::status check_module_gpus();

/// What children need of the files of this GPU. Error: they cannot be found.
base::expected<gpu_access> module_gpu_access(const quern_context_facts& gpu);

/// Device class of modules on the GPU with this name, as the driver tells it: times of modules are
/// not those of lane `cuda`.
std::string module_device_class(std::string_view gpu_name);

/// The same by the GPU's number. Error (unavailable): it is not there.
base::expected<std::string> module_device_class_of(int number);

}  // namespace quern::env
