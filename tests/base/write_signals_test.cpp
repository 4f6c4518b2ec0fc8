// Limits of what may be written: errors that name file and limit, and not the end of the process.
#include "base/write_signals.hpp"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/subprocess.hpp"
#include "support/test.hpp"

using namespace quern::base;
using quern::test::contains;

TEST_CASE("a write beyond ulimit -f is an error that names the file and the limit") {
  const auto folder = temp_folder::make().value();
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ignore_file_size_signal();
    const rlimit small{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &small);
    const status written = write_file_atomic(folder.path() / "table", std::string(10'000, 'x'));
    const std::string said = written ? "written" : written.error().message;
    (void)!::write(ends[1], said.data(), said.size());
    ::_exit(0);
  }
  ::close(ends[1]);
  char text[1000];
  const ssize_t count = ::read(ends[0], text, sizeof text);
  ::close(ends[0]);
  int raw = 0;
  REQUIRE(::waitpid(child, &raw, 0) == child);
  REQUIRE(WIFEXITED(raw));
  REQUIRE(count > 0);
  const std::string said(text, static_cast<std::size_t>(count));
  CAPTURE(said);
  CHECK(contains(said, (folder.path() / "table").string()));
  CHECK(contains(said, "at most 4096 bytes; raise that (ulimit -f"));
  CHECK_FALSE(std::filesystem::exists(folder.path() / "table"));
}

TEST_CASE("children have the default back: their writes are what the system makes of them") {
  for (const int number : {SIGPIPE, SIGXFSZ}) {
    CAPTURE(number);
    const auto before = ::signal(number, SIG_DFL);
    number == SIGPIPE ? ignore_broken_pipes() : ignore_file_size_signal();
    auto child = subprocess::start(
        {.argv = {"/bin/sh", "-c", "kill -" + std::to_string(number) + " $$; exit 3"}});
    REQUIRE(child);
    CHECK(child->wait(10_s).value().signal == number);
    ::signal(number, before);
  }
}
