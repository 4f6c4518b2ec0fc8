// A child that has what this process had open, as one that is being cloned has until it begins its
// program.
#pragma once

#include <csignal>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/test.hpp"

namespace quern::test {

/// Lives as long as this object.
class cloned_child {
 public:
  cloned_child() : pid_(fork()) {
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      while (true)
        pause();
    }
    REQUIRE(pid_ > 0);
  }
  ~cloned_child() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  cloned_child(const cloned_child&) = delete;
  cloned_child& operator=(const cloned_child&) = delete;
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

}  // namespace quern::test
