// The GPUs of this machine.
#include "env/lanes/pytorch/gpu/module_gpu.hpp"

#include "env/device/gpu_class.hpp"
#include "env/device/gpu_probe.hpp"

namespace quern::env {
namespace {

constexpr std::string_view of_modules = "-torch";

}  // namespace

base::status check_module_gpus() {
  if (has_nvidia_driver()) return {};
  return base::fail(
      base::errc::unavailable,
      "no NVIDIA driver is loaded here (no /dev/nvidiactl), which lane pytorch needs "
      "to judge on a GPU; quern doctor tells more. Without a GPU it judges on a core");
}

base::expected<gpu_access> module_gpu_access(const quern_context_facts& gpu) {
  return gpu_sandbox_paths(gpu.bus_id);
}

std::string module_device_class(std::string_view gpu_name) {
  return gpu_device_class(gpu_name) + std::string(of_modules);
}

base::expected<std::string> module_device_class_of(int number) {
  QUERN_TRY(const std::string of_gpu, gpu_device_class_of(number));
  return of_gpu + std::string(of_modules);
}

}  // namespace quern::env
