// A process that stands still, goes on, or ends meanwhile.
#include "env/runner/standing_process.hpp"

#include <chrono>
#include <csignal>
#include <thread>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/test.hpp"

using namespace quern;
using env::is_standing;
using env::standing_process;

namespace {

/// A child that computes until it is killed.
class computing_child {
 public:
  computing_child() : pid_(::fork()) {
    if (pid_ == 0) {
      for (volatile unsigned long i = 0;;)
        i = i + 1;
    }
  }
  ~computing_child() { end(); }
  computing_child(const computing_child&) = delete;
  computing_child& operator=(const computing_child&) = delete;

  [[nodiscard]] int pid() const { return pid_; }
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  int pid_;
};

bool stands_within(int pid, bool wanted) {
  for (int i = 0; i < 20'000; ++i) {
    if (is_standing(pid) == wanted) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

constexpr double patience_s = 60;

}  // namespace

TEST_CASE("a process stands when it was stopped, and goes on when it is told or nobody holds it") {
  const computing_child child;
  CHECK_FALSE(is_standing(child.pid()));
  {
    standing_process stands;
    REQUIRE(stands.stop(child.pid(), patience_s).has_value());
    CHECK(is_standing(child.pid()));
    REQUIRE(stands.stop(child.pid(), patience_s).has_value());
    stands.go_on();
    CHECK(stands_within(child.pid(), false));
    REQUIRE(stands.stop(child.pid(), patience_s).has_value());
    CHECK(is_standing(child.pid()));
  }
  CHECK(stands_within(child.pid(), false));
}

TEST_CASE("who stops another process lets the one before go on") {
  const computing_child first, second;
  standing_process stands;
  REQUIRE(stands.stop(first.pid(), patience_s).has_value());
  REQUIRE(stands.stop(second.pid(), patience_s).has_value());
  CHECK(is_standing(second.pid()));
  CHECK(stands_within(first.pid(), false));
}

TEST_CASE("a process whose state the kernel does not tell goes on") {
  const computing_child child;
  standing_process stands;
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none{0, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  const auto stopped = stands.stop(child.pid(), patience_s);
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  REQUIRE_FALSE(stopped.has_value());
  CHECK(stopped.error().code != base::errc::timeout);
  CHECK(test::contains(stopped.error().message, "reading the state of process"));
  CHECK(stands_within(child.pid(), false));
}

TEST_CASE("a process that goes on first is where it sleeps, or at work, and stands no more") {
  const computing_child child;
  standing_process stands;
  stands.go_on_first();  // nobody stands
  REQUIRE(stands.stop(child.pid(), patience_s).has_value());
  stands.go_on_first();
  CHECK(stands_within(child.pid(), false));
}

TEST_CASE("a process that ended stands, while it stood still or before") {
  computing_child child;
  const int gone = child.pid();
  standing_process stands;
  REQUIRE(stands.stop(gone, patience_s).has_value());
  child.end();
  CHECK_FALSE(is_standing(gone));
  stands.go_on();
}
