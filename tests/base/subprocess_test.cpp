// Children of ours: started or refused with a reason, reaped, never left behind.
#include "base/subprocess.hpp"

#include <signal.h>

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
