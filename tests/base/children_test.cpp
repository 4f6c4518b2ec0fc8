// The end of processes below this one.
#include "base/children.hpp"

#include <charconv>
#include <string>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/test.hpp"

using namespace quern::base;

namespace {

/// Starts a shell that starts a process which nobody asks to end; that one's number.
pid_t start_shell_with_child(pid_t& shell) {
  int ends[2];
  if (::pipe(ends) != 0) return -1;
  shell = ::fork();
  if (shell == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::execl("/bin/sh", "sh", "-c", "sleep 1000 >/dev/null & echo $!; wait", nullptr);
    ::_exit(127);
  }
  ::close(ends[1]);
  std::string line(32, '\0');
  const ssize_t got = ::read(ends[0], line.data(), line.size());
  ::close(ends[0]);
  pid_t pid = -1;
  if (got > 0) std::from_chars(line.data(), line.data() + got, pid);
  return pid;
}

/// In a process of its own, which ends with 0 where `end` is happy and the child of its shell is
/// gone: the number of that child, and whether the process ended so.
struct ended {
  pid_t child = -1;
  bool well = false;
};
template <class F>
ended end_by(F end) {
  int told[2];
  REQUIRE(::pipe(told) == 0);
  const pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    pid_t shell = -1;
    const pid_t child = start_shell_with_child(shell);
    const bool said = ::write(told[1], &child, sizeof child) == sizeof child;
    ::_exit(said && end(shell) && ::kill(child, 0) != 0 ? 0 : 1);
  }
  ended result;
  REQUIRE(::read(told[0], &result.child, sizeof result.child) == sizeof result.child);
  ::close(told[0]);
  ::close(told[1]);
  int raw = 0;
  REQUIRE(::waitpid(pid, &raw, 0) == pid);
  result.well = WIFEXITED(raw) && WEXITSTATUS(raw) == 0;
  REQUIRE(result.child > 0);
  return result;
}

}  // namespace

TEST_CASE("children of children that were killed are ended and reaped, too") {
  // What the process leaves becomes a child of this one, which reaps nobody meanwhile.
  REQUIRE(::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0);
  const ended all = end_by([](pid_t) { return end_children(std::chrono::seconds(60)); });
  CHECK(all.well);
  CHECK(::kill(all.child, 0) != 0);

  // The control: whoever kills its own children alone leaves theirs.
  const ended own = end_by([](pid_t shell) {
    return ::kill(shell, SIGKILL) == 0 && ::waitpid(shell, nullptr, 0) == shell;
  });
  CHECK_FALSE(own.well);
  CHECK(::kill(own.child, SIGKILL) == 0);
  CHECK(::waitpid(own.child, nullptr, 0) == own.child);
  ::prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
}

TEST_CASE("whoever has no children has none to end") {
  const pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) ::_exit(end_children(std::chrono::milliseconds(0)) ? 0 : 1);
  int raw = 0;
  REQUIRE(::waitpid(pid, &raw, 0) == pid);
  REQUIRE(WIFEXITED(raw));
  CHECK(WEXITSTATUS(raw) == 0);
}
