#include "policy/engine/device.hpp"

#include <ATen/Context.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>
#include <unistd.h>

namespace quern::policy {

void load_cuda() {
  if (::access("/dev/nvidiactl", F_OK) == 0) ::dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL);
}

base::expected<at::Device> choose_device(const std::string& wanted) {
  const bool there = wanted != "cpu" && at::hasCUDA();
  if (wanted == "cuda" && !there) {
    return base::fail(base::errc::not_found,
                      "device cuda is asked for, but LibTorch finds none: quern doctor tells why");
  }
  return there ? at::Device(at::kCUDA) : at::Device(at::kCPU);
}

void wait_for(const at::Device& device) {
  if (!device.is_cuda()) return;
  const c10::impl::VirtualGuardImpl guard(device.type());
  guard.synchronizeDevice(device.has_index() ? device.index() : guard.getDevice().index());
}

allocator_peak allocator_peak_of(const at::Device& device) {
  if (!device.is_cuda()) return {};
  const c10::impl::VirtualGuardImpl guard(device.type());
  const auto stats =
      c10::getDeviceAllocator(device.type())
          ->getDeviceStats(device.has_index() ? device.index() : guard.getDevice().index());
  constexpr auto all = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return {stats.allocated_bytes[all].peak, stats.reserved_bytes[all].peak};
}

std::int64_t memory_of(const at::Device& device) {
  if (device.is_cuda()) {
    // Of the CUDA runtime that LibTorch's CUDA part has loaded; nothing here is linked to one.
    using ask = int (*)(std::size_t * free, std::size_t * total);
    const auto memory_info = reinterpret_cast<ask>(::dlsym(RTLD_DEFAULT, "cudaMemGetInfo"));
    std::size_t free = 0, total = 0;
    const c10::impl::VirtualGuardImpl guard(device.type());
    if (device.has_index()) guard.setDevice(device);
    if (memory_info != nullptr && memory_info(&free, &total) == 0)
      return static_cast<std::int64_t>(free);
    return 0;
  }
  return std::int64_t{::sysconf(_SC_PHYS_PAGES)} * std::int64_t{::sysconf(_SC_PAGESIZE)};
}

}  // namespace quern::policy
