// Which device a policy works on.
#pragma once

#include <cstdint>
#include <string>

#include <c10/core/Device.h>

#include "base/status.hpp"

namespace quern::policy {

/// Loads LibTorch's CUDA part, which has to happen before the first operator of the process or CUDA
/// stays unavailable for ever. Call first thing in main where the configuration allows a GPU;
/// without one it does nothing.
void load_cuda();

/// "cpu", "cuda", or "auto": cuda where a device is. Error: unavailable, when cuda is asked for and
/// there is none.
base::expected<at::Device> choose_device(const std::string& wanted);

/// Waits until everything that is under way on a GPU is done; nothing to wait for on the CPU.
void wait_for(const at::Device& device);

/// Bytes that LibTorch's allocator of a GPU had in use at most, and had taken from the device at
/// most; zero on the CPU.
struct allocator_peak {
  std::int64_t used = 0, taken = 0;
};
allocator_peak allocator_peak_of(const at::Device& device);

/// Bytes of memory that are free on a GPU, or that the machine has.
std::int64_t memory_of(const at::Device& device);

}  // namespace quern::policy
