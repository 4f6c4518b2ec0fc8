// Children of ours: started or refused with a reason, reaped, never left behind.
#include "base/subprocess.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/input_end.hpp"
#include "base/pause_signals.hpp"
#include "support/test.hpp"

using namespace quern::base;

TEST_CASE("exit codes and signals are told apart") {
  auto exits = subprocess::start({.argv = {"/bin/sh", "-c", "exit 3"}});
  REQUIRE(exits);
  CHECK(describe(exits->wait(10_s).value()) == "exit code 3");
  auto sleeps = subprocess::start({.argv = {"/bin/sleep", "60"}});
  REQUIRE(sleeps);
  CHECK_FALSE(sleeps->poll());
  CHECK_FALSE(sleeps->wait(1_ms));
  sleeps->send_signal(SIGTERM);
  CHECK(sleeps->wait(10_s).value().signal == SIGTERM);
  CHECK(sleeps->poll().value().signal == SIGTERM);
}

TEST_CASE("a program that is not there is an error that names it") {
  const auto result = subprocess::start({.argv = {"/no/such/program"}});
  REQUIRE_FALSE(result);
  CHECK(result.error().message.find("/no/such/program") != std::string::npos);
}

TEST_CASE("the environment is put over the parent's, output goes to the log") {
  auto folder = temp_folder::make();
  REQUIRE(folder);
  auto child = subprocess::start({.argv = {"/bin/sh", "-c", "echo $GRAIN; echo $HOME >&2"},
                                  .environment = {"GRAIN=rye", "HOME=/mill"},
                                  .log = folder->path() / "log"});
  REQUIRE(child);
  CHECK(child->wait(10_s).value().code == 0);
  CHECK(read_file(folder->path() / "log").value() == "rye\n/mill\n");
}

TEST_CASE("a child does not outlive its owner") {
  pid_t pid = 0;
  {
    auto child = subprocess::start({.argv = {"/bin/sleep", "60"}});
    REQUIRE(child);
    pid = child->pid();
    CHECK(::kill(pid, 0) == 0);
  }
  CHECK(::kill(pid, 0) != 0);
}

TEST_CASE("a child reads what it was given, and the end only when its owner says so") {
  auto folder = temp_folder::make();
  REQUIRE(folder);
  auto child = subprocess::start({.argv = {"/bin/sh", "-c", "read one; echo got $one; cat"},
                                  .log = folder->path() / "log",
                                  .input = "rye\nwheat\n"});
  REQUIRE(child);
  CHECK_FALSE(child->wait(50_ms));
  child->close_input();
  CHECK(child->wait(10_s).value().code == 0);
  CHECK(read_file(folder->path() / "log").value() == "got rye\nwheat\n");
  CHECK_FALSE(subprocess::start({.argv = {"/bin/cat"}, .input = std::string(5000, 'x')}));
}

TEST_CASE("SIGHUP is a pause, unless it is ignored") {
  {
    pause_signals signals;
    ::kill(::getpid(), SIGHUP);
    CHECK(signals.arrived(1000));
  }
  // As nohup leaves it.
  const auto hup = ::signal(SIGHUP, SIG_IGN);
  {
    pause_signals signals;
    ::kill(::getpid(), SIGHUP);
    CHECK_FALSE(signals.arrived(50));
  }
  ::signal(SIGHUP, hup);
}

TEST_CASE("a process ends with its input, also where it does not listen to a request to end") {
  const auto folder = temp_folder::make().value();
  for (const bool deaf : {false, true}) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    const pid_t pid = ::fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
      ::close(ends[1]);
      const unique_fd log(
          ::open((folder.path() / "log").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
      ::dup2(log.get(), STDERR_FILENO);
      ::dup2(ends[0], STDIN_FILENO);
      ::signal(SIGTERM, deaf ? SIG_IGN : SIG_DFL);
      if (read_input_line().value_or("") != "first") ::_exit(1);
      end_with_input(20_ms);
      while (true)
        ::pause();
    }
    ::close(ends[0]);
    REQUIRE(write_all(ends[1], "first\nsecond"));
    int raw = 0;
    CHECK(::waitpid(pid, &raw, WNOHANG) == 0);
    ::close(ends[1]);
    REQUIRE(::waitpid(pid, &raw, 0) == pid);
    CHECK(WIFSIGNALED(raw));
    CHECK(WTERMSIG(raw) == (deaf ? SIGKILL : SIGTERM));
    // Else nobody would know why: launch commands differ in what they do with input.
    const std::string said = read_file(folder.path() / "log").value_or("");
    CHECK(quern::test::contains(said, "standard input ended"));
    CHECK(quern::test::contains(said, "does not pass its input on (ssh -n"));
  }
}
