// A real process that writes until it is killed, and says what it was promised was durable.
#pragma once

#include <csignal>
#include <cstdint>
#include <vector>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ledger_support.hpp"

namespace quern::test {

/// Forks `body(say)`, which reports numbers with `say` and runs until killed. `until` is called
/// with each number that arrives and decides when to kill -9. Gives all numbers that were said.
template <class Body, class Until>
std::vector<std::int64_t> run_and_kill(Body body, Until until) {
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::close(ends[0]);
    body([&](std::int64_t number) {
      if (::write(ends[1], &number, sizeof number) != sizeof number) ::_exit(3);
    });
    ::_exit(4);  // a writer that ends by itself was not killed while writing
  }
  ::close(ends[1]);
  std::vector<std::int64_t> said;
  std::int64_t number = 0;
  while (::read(ends[0], &number, sizeof number) == sizeof number) {
    said.push_back(number);
    if (until(number)) ::kill(child, SIGKILL);
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WIFSIGNALED(status));
  return said;
}

/// Kills after a number of reports and then a number of microseconds, so that the death falls
/// anywhere, not only right after a report.
struct random_death {
  std::int64_t reports;
  unsigned microseconds;
  bool operator()(std::int64_t /*number*/) {
    if (--reports > 0) return false;
    ::usleep(microseconds);
    return true;
  }
};

}  // namespace quern::test
