// What a process with a GPU gives up before and after a candidate's shared object is loaded.
//
// The sandbox's own filter (env/sandbox/seccomp_filter.cpp) has to let the driver's library make
// threads, memory files, timers and local sockets, because a context cannot be made without them.
// Once the context is warm nothing needs them any more.
#pragma once

namespace quern::env::runner {

enum class gpu_lock {
  /// Before dlopen(), whose constructors are the candidate's. No new thread or process, program,
  /// socket, memory file, timer or signal from now on: they return EPERM (threads EAGAIN), as where
  /// a host is short of them; running a program ends the process with SIGSYS.
  before_loading,
  /// Behind dlopen(): no memory becomes executable any more, EPERM.
  before_calling
};

/// Puts the lock on, for all threads of the process and for good. 0, or errno.
int lock_down(gpu_lock stage);

}  // namespace quern::env::runner
