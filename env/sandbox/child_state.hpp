// What a child's handle and its spawner know of it together. Internal to the sandbox.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>

#include "env/sandbox/cgroup.hpp"
#include "env/sandbox/child.hpp"

namespace quern::env {

struct child::state {
  using clock = std::chrono::steady_clock;

  int pid = -1;
  base::unique_fd pidfd;
  layer_set layers;
  base::unique_fd work;
  base::unique_fd out, err;
  std::optional<cgroup_leaf> group;
  std::optional<base::temp_folder> host_work;  ///< where there is no mount namespace
  bool own_pids = false;
  double cpu_s = 0, wall_s = 0;  ///< limits; zero: none
  clock::time_point deadline = clock::time_point::max();

  std::mutex mutex;
  bool timed_out = false, killed = false;  ///< guarded by mutex
  bool stopped = false;                    ///< guarded by mutex
  std::optional<child_end> end;            ///< guarded by mutex

  /// Kills the tree. With the mutex held, so that the process is not reaped yet and its numbers are
  /// still its own.
  void strike();
  /// Whether it ends within so many seconds; negative: waits until it does.
  bool ended_within(double seconds) const;
  /// The process has ended; collects it once.
  child_end reap();
};

}  // namespace quern::env
