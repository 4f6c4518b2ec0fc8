// LibTorch on a CUDA device: its CUDA part loaded, and set up for references.
#pragma once

#include <cstdint>

#include "base/status.hpp"

namespace quern::env {

/// Loads LibTorch's CUDA part, states every setting that a reference depends on, and runs one
/// operator of each library (cuBLAS, cuDNN) on the device so that they are loaded. Must come before
/// every other use of LibTorch in the process; once. Errors: unavailable, with the loader's or
/// LibTorch's own words. Seconds; a minute from a cold disk.
base::status prepare_libtorch_on(int device);

/// Waits for the device. Error: unavailable with its message; after a fault of a kernel every call
/// fails.
base::status wait_for_device(int device);

/// All of the device's memory, bytes; 0: LibTorch cannot tell.
std::int64_t memory_of_device(int device);

/// Gives cached memory back to the device where LibTorch holds more than `keep_bytes`, used or not.
void trim_device_memory(int device, std::int64_t keep_bytes);

}  // namespace quern::env
