// What a process gives up before and after the shared object of a candidate for a core is loaded.
//
// The sandbox's own filter (env/sandbox/seccomp_filter.cpp) has to let a program be started: it
// allows execve and opening files for writing, and answers much of what it refuses with an error
// that a candidate can shrug off. The runner needs none of that once it runs.
#pragma once

namespace quern::env::runner {

enum class cpu_lock {
  /// Before dlopen(), whose constructors and resolvers are the candidate's. Computing, and what the
  /// loader does: opening files to read them, mapping code. All else ends the process with SIGSYS:
  /// threads, processes, programs, sockets, files opened for writing.
  before_loading,
  /// Behind dlopen(). Answering on the open socket, memory that is not executable, futex, clocks,
  /// yield, exit. All else ends the process with SIGSYS: opening any file, executable memory.
  before_calling
};

/// Puts the lock on, for good. 0, or errno; EINVAL or ENOSYS: this Linux has no such filters.
///
/// The first lock is put on while the process is still its own, so that no candidate can undo it.
/// The second is put on by a process whose constructors have run: one of them can keep it off, and
/// gains executable memory and a look at the files that the sandbox shows, which are the system's
/// libraries and its own artefact.
int lock_down(cpu_lock stage);

}  // namespace quern::env::runner
