// For quern-runner-unlocked, the runner of tests that judge without its locks: in the place of
// env/runner/cpu_lock.cpp.
#include "env/runner/cpu_lock.hpp"

namespace quern::env::runner {

int lock_down(cpu_lock /*stage*/) {
  return 0;
}

}  // namespace quern::env::runner
