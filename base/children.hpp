// Processes below this one that end when it says so: all its children, whoever of its threads
// started them, and a child of a child.
#pragma once

#include <chrono>
#include <utility>

#include <sys/types.h>

#include "base/file.hpp"

namespace quern::base {

/// SIGKILL to every child of this process that lives, also one that it had before exec; whoever
/// owns one still has to reap it. Calls adopt_orphans(). Safe beside threads that start and reap
/// children: nothing but a child is ever hit. For the end of a process whose threads wait for what
/// their children do.
void kill_children();

/// From then on children of a process below this one become this one's when their parent ends
/// (PR_SET_CHILD_SUBREAPER). Otherwise they are the host's first process's, which in a container
/// may reap nobody. For the end of a process: who adopts has to reap (end_children()).
void adopt_orphans();

/// kill_children() again and again, and reaps all of them, those too that became this process's
/// meanwhile, until there is none. False: some were still there after `limit`. A thread that waits
/// for a child of its own may find it reaped: for the very end of a process.
bool end_children(std::chrono::milliseconds limit);

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
