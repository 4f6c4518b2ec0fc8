// One process on a device in which kernels run.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "base/status.hpp"
#include "env/gpu/link.hpp"
#include "env/sandbox/child.hpp"

namespace quern::env {

struct gpu_runner_start {
  std::filesystem::path runner_program;               ///< quern-runner
  std::filesystem::path cuda_library;                 ///< libquern_cuda.so
  gpu_access access;                                  ///< of the one device that it may see
  std::int64_t memory_bytes = std::int64_t{8} << 30;  ///< of the host
  double wall_s = 3600;
};

/// Owns the child; its link is open on the device. It ends with this object.
class gpu_runner_process {
 public:
  /// Spawns quern-runner in the sandbox and makes its context: a fifth of a second. Errors are of
  /// this host.
  static base::expected<std::unique_ptr<gpu_runner_process>> start(spawner& children,
                                                                   const gpu_runner_start& how);

  [[nodiscard]] gpu_link& link() { return link_; }
  [[nodiscard]] layer_set layers() const { return child_->layers(); }
  /// Ends the child, if it still runs, and tells how it ended.
  child_end end();

 private:
  gpu_runner_process() = default;
  std::unique_ptr<child> child_;
  gpu_link link_;
};

}  // namespace quern::env
