// Processes whose code, stack and libraries lie at the same addresses every time.
#include "env/sandbox/layout.hpp"

#include <climits>
#include <cstdlib>

#include <sys/personality.h>
#include <unistd.h>

namespace quern::env {
namespace {

constexpr unsigned long ask_only = 0xffffffff;

}  // namespace

bool ask_for_fixed_layout() {
  const int now = personality(ask_only);
  return now >= 0 && personality(static_cast<unsigned long>(now) | ADDR_NO_RANDOMIZE) >= 0;
}

void start_over_in_fixed_layout(char* const* argv) {
  // Once: a system may take the wish and forget it.
  constexpr const char* begun = "QUERN_FIXED_LAYOUT";
  const int now = personality(ask_only);
  const bool again = getenv(begun) != nullptr;
  if (now < 0 || (now & ADDR_NO_RANDOMIZE) != 0 || again || !ask_for_fixed_layout()) return;
  setenv(begun, "1", 1);
  char program[PATH_MAX] = {};
  if (readlink("/proc/self/exe", program, sizeof program - 1) > 0) execv(program, argv);
}

}  // namespace quern::env
