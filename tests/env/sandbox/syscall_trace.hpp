// The system calls of a child, those that the system or the sandbox refused most of all: a small
// strace, by ptrace.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace quern::test {

/// One refused call, as often as it was made alike.
struct refused_call {
  std::string name;   ///< "openat(257)"; "openat for writing(257)" of a file opened for writing
  std::string error;  ///< "EPERM"
  std::string path;   ///< of calls that have one; of others the first arguments
  int times = 0;
};

struct trace_result {
  std::string problem;  ///< why nothing could be traced; empty: it was
  std::vector<refused_call> refused;
  /// Names of those that took effect, without their numbers; a file that was opened for writing is
  /// "openat for writing". Whoever signals or traces a process that is not there has got as far as
  /// that: the system looked for it.
  std::set<std::string> made;
  std::string last_call;  ///< those that were being made when the child ended, one a thread
};

/// Follows process `pid`, a child of this process, and its threads until it ends; calls `go` once
/// it is followed. Leaves the reaping to the owner. Needs the right to trace (root, when the child
/// is another user).
template <class Go>
trace_result trace_child(int pid, Go go);

/// The same for any callable; see above.
trace_result trace_child_with(int pid, void (*go)(void*), void* argument);

template <class Go>
trace_result trace_child(int pid, Go go) {
  return trace_child_with(
      pid, [](void* self) { (*static_cast<Go*>(self))(); }, &go);
}

}  // namespace quern::test
