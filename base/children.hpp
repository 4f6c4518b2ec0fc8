// Processes below this one that end when it says so: all its children, whoever of its threads
// started them, and a child of a child.
#pragma once

#include <utility>

#include <sys/types.h>

#include "base/file.hpp"

namespace quern::base {

/// SIGKILL to every child of this process that lives, also one that it had before exec; whoever
/// owns one still has to reap it. Safe
/// beside threads that start and reap children: nothing but a child is ever hit. For the end of a
/// process whose threads wait for what their children do.
void kill_children();

/// Kills a process when it is destroyed, one that is stopped as well, which would not see the end
/// of a socket. Whoever is its parent reaps it. Not thread-safe.
class killed_at_end {
 public:
  /// `pid` as `parent` has told it. Kills nothing where it is no child of `parent` any more.
  killed_at_end(pid_t parent, pid_t pid);
  ~killed_at_end();
  killed_at_end(killed_at_end&&) = default;
  /// What this one held is killed with `other`.
  killed_at_end& operator=(killed_at_end&& other) noexcept {
    std::swap(process_, other.process_);
    return *this;
  }

 private:
  unique_fd process_;  ///< pidfd; empty: nothing to kill
};

}  // namespace quern::base
