// Tests that need a GPU: skipped, with a printed reason, where none is; failures where one must be
// (QUERN_REQUIRE_GPU, set by tools/gpu_check.sh).
#pragma once

#include <cstdlib>
#include <string>

#include "support/test.hpp"

namespace quern::test {

/// The GPU of programs that can use any: QUERN_TEST_GPU, else the first.
inline int the_gpu() {
  const char* number = std::getenv("QUERN_TEST_GPU");
  return number == nullptr ? 0 : std::stoi(number);
}

/// Whether to go on with a test of a GPU; `reason` says why there is none.
inline bool go_on_with_gpu(bool there, const std::string& reason) {
  if (there) return true;
  if (std::getenv("QUERN_REQUIRE_GPU") != nullptr)
    FAIL("a GPU is required here: ", reason);
  else
    skip(reason);
  return false;
}

}  // namespace quern::test
