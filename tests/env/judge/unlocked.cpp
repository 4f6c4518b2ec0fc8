// For quern-runner-unlocked, the runner of tests that judge without its locks: in the place of
// env/runner/cpp_lock.cpp.
#include "env/runner/cpp_lock.hpp"

namespace quern::env::runner {

int lock_down(cpp_lock /*stage*/) {
  return 0;
}

}  // namespace quern::env::runner
