// Landlock by its raw system calls: the C library has no wrappers, and the headers of Debian 12
// know only its first versions.
#pragma once

namespace quern::env {

/// The version that Linux offers; 0: none.
int landlock_version();

enum class landlock_right {
  read_and_run,
  everything,
  device,              ///< reading and writing
  device_orders,       ///< and ioctl
  read_and_write,      ///< of what is there: nothing new, nothing removed
  write_what_is_there  ///< and no right to read; for landlock_create_for_writing
};

/// A rule set (a descriptor, closed on exec) that handles all that version `abi` can: files, TCP,
/// signals and abstract sockets to outside. -1 with errno. Async-signal-safe, like all here.
int landlock_create(int abi);

/// The same for writing alone: contents, what is made and what is removed. Reading, running,
/// networks and signals stay as they were.
int landlock_create_for_writing(int abi);

/// Allows `path` (a folder with all below it, or a file) to `ruleset`. A path that does not exist
/// is skipped.
bool landlock_allow(int ruleset, int abi, const char* path, landlock_right right);

/// From now on the calling thread, and whatever it starts, has only those rights. Needs
/// no_new_privs.
bool landlock_restrict(int ruleset);

}  // namespace quern::env
