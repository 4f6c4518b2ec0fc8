// One process on a device in which kernels run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "base/status.hpp"
#include "env/gpu/link.hpp"
#include "env/sandbox/child.hpp"

namespace quern::env {

/// Hardware queues for work that a process has of the device. Each costs when its context is made
/// and when it ends; what has its own streams needs them, or one stream waits for another.
enum class work_queues : std::uint8_t { one, all };

struct gpu_runner_start {
  std::filesystem::path runner_program;               ///< quern-runner
  std::filesystem::path cuda_library;                 ///< libquern_cuda.so
  gpu_access access;                                  ///< of the one device that it may see
  std::int64_t memory_bytes = std::int64_t{8} << 30;  ///< of the host
  /// Folder of vendor libraries that it may load; empty: none.
  std::filesystem::path libraries = {};
  double wall_s = 0;  ///< of its life; 0: none, questions have deadlines of their own
  work_queues queues = work_queues::all;
  /// Host-entry form: whether a lock that cannot be put on is an error (gpu_lock_request).
  bool locks_required = true;
};

/// Owns the child. It ends with this object.
class gpu_runner_process {
 public:
  /// Spawns quern-runner in the sandbox and starts the driver in it; nothing happens on the device.
  /// Errors are of this host.
  static base::expected<std::unique_ptr<gpu_runner_process>> start(spawner& children,
                                                                   const gpu_runner_start& how);
  /// Makes its context and runs once whatever stands around calls: a fifth of a second, which
  /// others on the device feel. Once, before anything else is asked.
  base::status open();

  [[nodiscard]] gpu_link& link() { return link_; }
  [[nodiscard]] layer_set layers() const { return child_->layers(); }
  /// Threads that live in it; 0: it has ended.
  [[nodiscard]] int threads() { return link_.raw().threads(); }
  /// Whether it is of no more use: the kernel may end it while it waits for work.
  [[nodiscard]] bool has_ended() { return child_->wait(0).has_value(); }
  /// Candidates whose code was loaded into it.
  [[nodiscard]] int served() const { return served_; }
  void note_candidate() { ++served_; }
  /// Whether vendor libraries are in its reach.
  [[nodiscard]] bool has_libraries() const { return has_libraries_; }
  /// Of its start.
  [[nodiscard]] bool locks_required() const { return locks_required_; }
  /// Makes it stand still, or go on; beside any other call.
  void set_paused(bool paused) { paused ? child_->stop() : child_->go_on(); }
  /// Ends the child, if it still runs, and tells how it ended.
  child_end end();

 private:
  gpu_runner_process() = default;
  std::unique_ptr<child> child_;
  gpu_link link_;
  int served_ = 0;
  bool has_libraries_ = false;
  bool locks_required_ = true;
};

}  // namespace quern::env
