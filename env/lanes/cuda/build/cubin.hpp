// What machine code for a GPU says of itself: registers, shared and local memory of its kernels.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace quern::env {

struct kernel_resources {
  std::string symbol;
  std::int64_t registers = 0;  ///< a thread
  /// Static, a block, with what the architecture keeps for itself (1 KiB from compute capability
  /// 8.0 on).
  std::int64_t shared_bytes = 0;
  /// Frame in local memory, a thread: spilt registers, and arrays that are indexed by values.
  std::int64_t local_bytes = 0;
  friend bool operator==(const kernel_resources&, const kernel_resources&) = default;
};

/// Reads a cubin (ELF of 64 bits for EM_CUDA), kernels in the order of its symbols. Linear in the
/// bytes and believes none of them: what stands outside of the file is an error (corrupt).
base::expected<std::vector<kernel_resources>> read_cubin(std::string_view elf);

}  // namespace quern::env
