// A process that stands still by a signal while others are measured.
#pragma once

#include <utility>

#include "base/status.hpp"

namespace quern::env {

/// Whether a process stands still by a signal, by the state of its first thread.
bool is_standing(int process);

/// One process at a time, which may end meanwhile. Not thread-safe.
class standing_process {
 public:
  standing_process() = default;
  standing_process(standing_process&& other) noexcept
      : process_(std::exchange(other.process_, 0)) {}
  standing_process& operator=(standing_process&&) = delete;
  /// As go_on().
  ~standing_process() { go_on(); }

  /// Stops all threads of `process` (SIGSTOP) and waits until the first stands: a thread that is
  /// inside a system call ends it first. A process that ended stands. Errors, behind which it
  /// goes on: timeout after `seconds`; any other: the kernel refuses, or does not tell.
  base::status stop(int process, double seconds);
  /// Lets it go on, if it was stopped by this object.
  void go_on();
  /// The same, and where it waits for the core of this thread, it has that core first: it comes to
  /// where it sleeps before this thread goes on, unless that takes long.
  void go_on_first();

 private:
  /// Its number, if it was stopped here; 0: none is.
  int process_ = 0;
};

}  // namespace quern::env
