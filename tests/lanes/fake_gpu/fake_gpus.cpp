// In the place of the GPUs of this machine: devices that are none (tests/env/pytorch/gpu), any
// number of them.
#include "env/lanes/pytorch/gpu/module_gpu.hpp"

namespace quern::env {

base::status check_module_gpus() {
  return {};
}

base::expected<gpu_access> module_gpu_access(const quern_context_facts& /*gpu*/) {
  gpu_access made;
  made.devices = {"/dev/zero"};
  return made;
}

std::string module_device_class(std::string_view gpu_name) {
  return std::string(gpu_name) + "-torch";
}

base::expected<std::string> module_device_class_of(int /*number*/) {
  return module_device_class("none");
}

}  // namespace quern::env
