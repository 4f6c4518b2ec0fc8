// Whether this host lets a process come before others: root of a container may not.
#pragma once

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/test.hpp"

namespace quern::test {

/// Tried in a child, since it could not be taken back everywhere.
inline bool may_come_first() {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(::setpriority(PRIO_PROCESS, 0, -15) == 0 ? 0 : 1);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace quern::test
