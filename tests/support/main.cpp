// Entry of every test program, compiled once for all of them.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <cstdio>
#include <string>

#include <doctest/doctest.h>

// Declared in support/test.hpp, which may bring LibTorch along.
namespace quern::test {

void skip(const std::string& reason) {
  std::printf("SKIPPED: %s\n", reason.c_str());
  std::fflush(stdout);
}

}  // namespace quern::test
