// What a rank that hangs, or that LibTorch throws out of its work, says as its process ends.
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "actors/defaults.hpp"
#include "actors/workers/rank_group.hpp"
#include "actors/workers/worker_end.hpp"
#include "base/file.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::actors;
using namespace std::chrono_literals;
using base::operator""_s;

namespace {

struct ended_child {
  int code = -1;
  std::string said;
};

/// `work` in a process of its own, which ends with 0 after it.
ended_child in_child(const std::function<void()>& work) {
  const auto folder = base::temp_folder::make().value();
  const std::string log = (folder.path() / "log").string();
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const int file = ::open(log.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    ::dup2(file, STDOUT_FILENO);
    ::dup2(file, STDERR_FILENO);
    work();
    ::_exit(0);
  }
  int state = 0;
  REQUIRE(::waitpid(child, &state, 0) == child);
  REQUIRE(WIFEXITED(state));
  return {WEXITSTATUS(state), base::read_file(log).value_or("")};
}

}  // namespace

TEST_CASE("a rank that is alone is ended by what it hangs in, and not before") {
  const auto hung = in_child([] {
    const auto guard = std::make_shared<rank_guard>(nullptr);
    guard->at("waiting for a batch", 7);
    std::this_thread::sleep_for(500ms);
    const rank_guard::busy now(guard, "copying a checkpoint", 300ms);
    std::this_thread::sleep_for(60s);
  });
  CAPTURE(hung.said);
  CHECK(hung.code == defaults::group_failed_code);
  CHECK(test::contains(hung.said, "what may take 0.3 s (copying a checkpoint, version 7)"));
  const auto honest = in_child([] {
    const auto guard = std::make_shared<rank_guard>(nullptr);
    for (int i = 0; i < 3; ++i) {
      const rank_guard::busy now(guard, "publishing weights", 10s);
      std::this_thread::sleep_for(300ms);
    }
    std::this_thread::sleep_for(500ms);
  });
  CAPTURE(honest.said);
  CHECK(honest.code == 0);
}

namespace {

/// Counts the looks at it.
class looked_at_clock final : public base::clock {
 public:
  [[nodiscard]] base::nanoseconds_t now_ns() const override {
    ++looks_;
    return now_;
  }
  /// Returns when everybody has seen it.
  void advance(base::nanoseconds_t by) {
    now_ += by;
    for (const int before = looks_; looks_ < before + 2;)
      std::this_thread::sleep_for(5ms);
  }

 private:
  std::atomic<base::nanoseconds_t> now_ = 0;
  mutable std::atomic<int> looks_ = 0;
};

}  // namespace

TEST_CASE("time in which a rank that is alone was stopped does not end it") {
  const auto work = [](int seconds) {
    return in_child([seconds] {
      looked_at_clock time;
      const auto guard = std::make_shared<rank_guard>(nullptr, time);
      const rank_guard::busy now(guard, "copying a checkpoint", 60s);
      time.advance(3600_s);  // as after SIGSTOP and SIGCONT
      for (int s = 0; s < seconds; s += 5)
        time.advance(5_s);
    });
  };
  CHECK(work(40).code == 0);
  const auto hung = work(60);
  CAPTURE(hung.said);
  CHECK(hung.code == defaults::group_failed_code);
}

TEST_CASE(
    "a rank whose thread cannot leave a group that has failed is ended, and names the other") {
  const auto folder = base::temp_folder::make().value();
  const auto stuck = in_child([&] {
    const std::string place = "unix:" + (folder.path() / "m").string();
    std::shared_ptr<policy::rendezvous> other;
    std::jthread joining([&] {
      if (auto joined = policy::rendezvous::join({place, 1, 2, {60_s, 60_s, 60_s}}))
        other = std::move(*joined);
    });
    const auto own = policy::rendezvous::join({place, 0, 2, {60_s, 60_s, 60_s}});
    joining.join();
    if (!own || !other) ::_exit(99);
    const auto guard = std::make_shared<rank_guard>(*own);
    guard->at("waiting for a batch", 12);
    other->at("backward", 12);
    // Its next sign of life, which says where it is.
    std::this_thread::sleep_for(3s);
    other->cut();
    std::this_thread::sleep_for(60s);
  });
  CAPTURE(stuck.said);
  CHECK(stuck.code == defaults::group_failed_code);
  CHECK(
      test::contains(stuck.said, "rank 0 of 2 in waiting for a batch, version 12: rank 1 is gone"));
  CHECK(test::contains(stuck.said, "last seen in backward, version 12"));
}

TEST_CASE("a guard says what its rank is at, and what it was busy with when something was thrown") {
  const auto guard = std::make_shared<rank_guard>(nullptr);
  guard->at("loading", 3);
  CHECK(guard->where() == "loading, version 3");
  {
    const rank_guard::busy now(guard, "opening a link", 10s);
    CHECK(guard->where() == "opening a link, version 3");
  }
  CHECK(guard->where() == "loading, version 3");
  const auto result = caught("x", [&]() -> base::status {
    const rank_guard::busy now(guard, "publishing weights", 10s);
    throw std::bad_alloc();
  });
  CHECK_FALSE(result);
  CHECK(guard->where() == "publishing weights, version 3");
}

TEST_CASE("what LibTorch throws is one line behind who was at what") {
  const auto result = caught("learner rank 1, backward, version 12", []() -> base::status {
    TORCH_CHECK(false, "CUDA error: an illegal memory access\nCompile with TORCH_USE_CUDA_DSA");
    return {};
  });
  REQUIRE_FALSE(result);
  CHECK(result.error().code == base::errc::internal);
  CHECK(result.error().message ==
        "learner rank 1, backward, version 12: CUDA error: an illegal memory access");
  const auto other = caught("generator", []() -> base::expected<int> { throw 5; });
  REQUIRE_FALSE(other);
  CHECK(test::contains(other.error().message, "generator: "));
  CHECK(caught("nobody", []() -> base::expected<int> { return 4; }).value() == 4);
  const auto end = in_child([&] { end_worker("learner", result.error()); });
  CHECK(end.code == defaults::worker_failed_code);
  CHECK(test::contains(end.said, "learner rank 1, backward, version 12: CUDA error"));
}
