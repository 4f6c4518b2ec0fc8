// Which numbers the files of a process without standard descriptors get.
#include "base/descriptors.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/test.hpp"

using namespace quern;

namespace {

/// The number of the first file that a process without standard descriptors opens.
int first_file(bool fills) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (int standard = 0; standard <= STDERR_FILENO; ++standard)
      ::close(standard);
    if (fills) base::fill_standard_descriptors();
    ::_exit(::open("/dev/null", O_RDONLY));
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("no file that is opened later gets the number of a standard descriptor") {
  CHECK(first_file(false) == 0);
  CHECK(first_file(true) > STDERR_FILENO);
}
