// Which GPUs this machine has and whether they compute.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace quern::env {

struct gpu_facts {
  std::string name;
  std::string bus_id;        ///< PCI address
  int major = 0, minor = 0;  ///< compute capability: 9, 0 is sm_90
  int multiprocessors = 0;
  std::uint64_t memory_bytes = 0, free_bytes = 0;
  /// Why it does not compute; empty: a kernel of ours ran on it and was right. In what list_gpus()
  /// gives: why the driver cannot describe it.
  std::string problem;
};

struct gpu_host {
  std::string driver_cuda;  ///< newest CUDA that the driver can run, "13.0"
  std::string built_with;   ///< CUDA that libquern_cuda.so was built with
  std::vector<gpu_facts> gpus;
};

/// Whether an NVIDIA driver is loaded. Needs nothing of CUDA.
bool has_nvidia_driver();

/// Loads libquern_cuda.so and asks it; it stays loaded. Makes a context on every device and runs a
/// kernel there: some tenths of a second. The contexts stay, each takes half a gigabyte, and
/// whoever measures on one of these devices is told of them. Errors: unavailable says what is
/// missing (no driver, a build without CUDA, the driver's own words).
base::expected<gpu_host> probe_gpus();
/// probe_gpus() by another file, which must be of this build, too, and whatever driver is loaded.
base::expected<gpu_host> probe_gpus_by(const std::filesystem::path& library);
/// What devices there are, without a context on any and without free_bytes. Errors as
/// probe_gpus()'s.
base::expected<gpu_host> list_gpus();

}  // namespace quern::env
