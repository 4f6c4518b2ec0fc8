// A control group for one child: memory and process limits, version 1 or 2, gone with the object.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "base/status.hpp"
#include "env/sandbox/probe.hpp"

namespace quern::env {

/// Finds where groups can be made from this process (own group, or the nearest ancestor whose
/// children have the memory and pids controllers) by making one. version 0 and `why` if nowhere.
cgroup_place find_cgroup_place(std::string& why);

/// Removes groups below `place` that belong to processes which no longer live.
void sweep_cgroups(const cgroup_place& place);

/// Owns the folders. Not thread-safe. Destroying it removes them, waiting up to a second for
/// processes that are still being torn down.
class cgroup_leaf {
 public:
  /// Limits of zero or less are not set. The name holds this process's pid and start time, so that
  /// sweep_cgroups() knows whose it was.
  static base::expected<cgroup_leaf> create(const cgroup_place& place, std::int64_t memory_bytes,
                                            int processes);
  ~cgroup_leaf();
  cgroup_leaf(cgroup_leaf&& other) noexcept;
  cgroup_leaf& operator=(cgroup_leaf&& other) noexcept;

  /// Moves a process in; 0: the calling one.
  [[nodiscard]] base::status add(int pid) const;
  /// Linux killed inside because this group's own limit was reached, not because the machine,
  /// or a group around this one, was short of memory.
  [[nodiscard]] bool had_oom_kill() const;
  /// Ends every process inside (version 2 only; version 1 has no such order).
  void kill() const;
  /// False when processes are still inside after a second.
  bool remove();
  [[nodiscard]] const cgroup_place& folders() const { return folders_; }

 private:
  explicit cgroup_leaf(cgroup_place folders) : folders_(std::move(folders)) {}
  [[nodiscard]] bool reached_limit() const;
  cgroup_place folders_;
};

}  // namespace quern::env
