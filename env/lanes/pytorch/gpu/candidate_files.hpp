// What a candidate on a GPU cannot have there, and how what was built for it gets to its process.
#pragma once

#include <string>

#include "env/lanes/pytorch/candidate_builds.hpp"
#include "env/lanes/pytorch/candidate_kernels.hpp"
#include "env/lanes/pytorch/gpu/device_module.hpp"

namespace quern::env {

/// Why no host of this device class can run a text, as far as the text shows it; empty: nothing
/// shows it.
std::string cannot_run_on_device(const python_facts& facts);

/// Puts its extensions into the folder of its process, where it has any. Error: of this host.
base::status put_extensions(device_module& process, const candidate_extensions& built);
/// The same of Triton kernels.
base::status put_kernels(device_module& process, const built_kernels& built);

}  // namespace quern::env
