// The evaluator's side of a warm process: how its end is waited for.
#include "env/runner/warm_process.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "base/file.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::env;

namespace {

/// A shell that says it is ready on descriptor 3, waits until that is closed, and does `then`.
base::expected<warm_process> shell_that(const std::string& then,
                                        std::chrono::milliseconds end_limit) {
  return warm_process::start({"/bin/sh", "-c", "printf ready >&3; cat <&3 >/dev/null; " + then},
                             {"PATH=/usr/bin:/bin"}, end_limit);
}

bool exists(int pid) {
  return kill(pid, 0) == 0 || errno != ESRCH;
}

}  // namespace

TEST_CASE("a warm process has time to end its children, and is reaped") {
  const auto folder = base::temp_folder::make("quern-warm").value();
  const auto done = folder.path() / "done";
  int pid = -1;
  {
    // Contexts of many children take as long.
    const auto warm = shell_that("sleep 1.5; touch " + done.string(), std::chrono::minutes(2));
    REQUIRE(warm);
    CHECK(warm->hello() == "ready");
    pid = warm->pid();
    CHECK(exists(pid));
  }
  CHECK(std::filesystem::exists(done));
  CHECK_FALSE(exists(pid));
}

TEST_CASE("a warm process that does not end in its time is killed, and reaped") {
  int pid = -1;
  {
    const auto warm = shell_that("exec sleep 1000", std::chrono::milliseconds(50));
    REQUIRE(warm);
    pid = warm->pid();
  }
  CHECK_FALSE(exists(pid));
}

TEST_CASE("a warm process that is stopped goes on and ends by itself") {
  const auto folder = base::temp_folder::make("quern-warm").value();
  const auto done = folder.path() / "done";
  int pid = -1;
  {
    const auto warm = shell_that("touch " + done.string(), std::chrono::minutes(2));
    REQUIRE(warm);
    pid = warm->pid();
    REQUIRE(kill(pid, SIGSTOP) == 0);
  }
  CHECK(std::filesystem::exists(done));
  CHECK_FALSE(exists(pid));
}

TEST_CASE("an answer that comes late is not taken for the next one") {
  auto warm = warm_process::start(
      {"/bin/sh", "-c", "printf ready >&3; sleep 0.3; printf late >&3; cat <&3 >/dev/null"},
      {"PATH=/usr/bin:/bin"}, std::chrono::minutes(2));
  REQUIRE(warm);
  const std::array<std::byte, 1> question{};
  using std::chrono::milliseconds;
  const auto unanswered = warm->ask(question, {}, milliseconds(1));
  REQUIRE_FALSE(unanswered);
  CHECK(unanswered.error().code == base::errc::unavailable);
  std::this_thread::sleep_for(milliseconds(500));
  const auto next = warm->ask(question, {});
  REQUIRE_FALSE(next);
  CHECK(next.error().code == base::errc::unavailable);
  // The control: an answer in time is one.
  auto other = warm_process::start(
      {"/bin/sh", "-c", "printf ready >&3; printf answer >&3; cat <&3 >/dev/null"},
      {"PATH=/usr/bin:/bin"}, std::chrono::minutes(2));
  REQUIRE(other);
  const auto answer = other->ask(question, {});
  REQUIRE(answer);
  CHECK(*answer == "answer");
}

TEST_CASE("a process that does not become warm is an error that names it") {
  const auto never = warm_process::start({"/bin/sh", "-c", "exit 3"}, {});
  REQUIRE_FALSE(never);
  CHECK(never.error().code == base::errc::unavailable);
  CHECK(test::contains(never.error().message, "/bin/sh"));
}
