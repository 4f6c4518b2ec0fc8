// A process that runs references on a device (`quern-torch reference-gpu`), as the evaluator has
// it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "env/gpu/link.hpp"
#include "env/sandbox/child.hpp"

namespace quern::env {

struct gpu_reference_start {
  std::filesystem::path program;  ///< quern-torch
  std::filesystem::path library;  ///< libquern_cuda.so; libquern_aten_cuda.so lies beside it
  /// What the sandbox shows of the driver (gpu_sandbox_paths()).
  gpu_access access;
  int device = 0;  ///< as CUDA numbers those that the process sees
  /// Of the host. LibTorch maps some 5 GB of libraries, of which it touches a part.
  std::int64_t memory_bytes = std::int64_t{16} << 30;
  /// Not empty: what is started instead of `program`, as it stands and with nothing but
  /// `environment`. It may start compilers, sees `read_only` besides the system's libraries and
  /// compilers, and has a work folder of `work_bytes` in memory for what they make.
  std::vector<std::string> command = {}, environment = {}, read_only = {};
  std::int64_t work_bytes = std::int64_t{2} << 30;
  double open_wall_s =
      180;  ///< until the device is open: libraries from a cold disk, and a context
};

/// Owns the process, which serves one script after another and ends with this object. The link may
/// be used by one thread at a time. After an answer that says that the device was lost it is of no
/// more use: end it and start another.
class gpu_reference_process {
 public:
  /// Starts it in the sandbox and opens the device: seconds. Errors are of this host, with what the
  /// process said first on its standard error.
  static base::expected<std::unique_ptr<gpu_reference_process>> start(
      spawner& children, const gpu_reference_start& how);
  ~gpu_reference_process();
  gpu_reference_process(const gpu_reference_process&) = delete;
  gpu_reference_process& operator=(const gpu_reference_process&) = delete;

  [[nodiscard]] gpu_link& link() { return link_; }
  [[nodiscard]] int pid() const { return pid_; }
  [[nodiscard]] layer_set layers() const;
  /// The first of what it wrote to standard error.
  [[nodiscard]] std::string said() const;

  /// Whether it is of no more use.
  [[nodiscard]] bool has_ended() const { return child_->wait(0).has_value(); }
  /// Ends it where it still runs, and tells how it ended ("exit status 0", "SIGKILL", ...). The
  /// device has its memory back when this returns.
  std::string end();

 private:
  gpu_reference_process() = default;
  base::status open(base::unique_fd socket, const gpu_reference_start& how);

  std::unique_ptr<child> child_;
  gpu_link link_;
  int pid_ = -1;  ///< -1 when ended
};

}  // namespace quern::env
