#include "policy/engine/device.hpp"

#include <ATen/Context.h>
#include <dlfcn.h>
#include <unistd.h>

namespace quern::policy {

void load_cuda() {
  if (::access("/dev/nvidiactl", F_OK) == 0) ::dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL);
}

base::expected<at::Device> choose_device(const std::string& wanted) {
  const bool there = wanted != "cpu" && at::hasCUDA();
  if (wanted == "cuda" && !there) {
    return base::fail(base::errc::unavailable,
                      "device cuda is asked for, but LibTorch finds none: quern doctor tells why");
  }
  return there ? at::Device(at::kCUDA) : at::Device(at::kCPU);
}

}  // namespace quern::policy
