// What a sandboxed process has to see of the host in order to use CUDA.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace quern::env {

/// Absolute paths of this host; a plain value. See child_spec::gpu.
struct gpu_access {
  /// Device nodes: the control device, unified memory, and one of each GPU that may be used. They
  /// may be read, written and given orders (ioctl).
  std::vector<std::string> devices;
  /// Folders of the driver's libraries, and what the driver reads in /sys.
  std::vector<std::string> read_only;
  /// For child_spec::env: where the loader finds the driver when its cache does not name it, and no
  /// cache of compiled kernels in a home folder, which the child does not have.
  std::vector<std::string> env;
};

/// Looks for the driver of this host. `bus_id` (PCI address as gpu_facts has it, "0000:3B:00.0"):
/// only this GPU is visible to the child; empty: all are. Errors (unavailable): no driver is
/// loaded, its libraries are nowhere, no such GPU, or device nodes that not every user may open (a
/// sandboxed child is another user). Reads files; any thread; under a millisecond.
base::expected<gpu_access> gpu_sandbox_paths(std::string_view bus_id = {});

/// Where `library` lies according to a loader cache (the bytes of /etc/ld.so.cache); empty where it
/// does not say so. Never fails, whatever the bytes are.
std::string find_in_loader_cache(std::string_view cache, std::string_view library);

/// "/dev/nvidia0" for a bus id as CUDA writes it; empty where the driver lists no such GPU or has
/// no node for it.
std::string gpu_device_node(std::string_view bus_id);

}  // namespace quern::env
