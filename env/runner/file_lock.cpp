// What a process with a GPU gives up of its files before a candidate is loaded.
#include "env/runner/file_lock.hpp"

#include <cerrno>

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "env/sandbox/landlock.hpp"

namespace quern::env::runner {

int make_undumpable() {
  return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0 ? 0 : errno;
}

int keep_writing_to_devices() {
  const int abi = landlock_version();
  if (abi == 0) return errno != 0 ? errno : ENOSYS;
  const int ruleset = landlock_create_for_writing(abi);
  if (ruleset < 0) return errno;
  // Set by the sandbox already, where there is one.
  const bool bound = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                     landlock_allow(ruleset, abi, "/dev", landlock_right::write_what_is_there) &&
                     landlock_restrict(ruleset);
  const int error = bound ? 0 : errno;
  close(ruleset);
  return error;
}

bool own_memory_is_writable() {
  const int fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
  if (fd < 0) return false;
  close(fd);
  return true;
}

int lock_files(bool required) {
  const int first = make_undumpable();
  // Before the other lock covers this thread: it would hide that this one does not hold.
  const bool holds = first == 0 && !own_memory_is_writable();
  const int second = keep_writing_to_devices();
  if (!required) return 0;
  if (first != 0 || second != 0) return first != 0 ? first : second;
  return holds ? 0 : EACCES;
}

}  // namespace quern::env::runner
