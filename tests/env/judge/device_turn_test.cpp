// A device by turns: who waits is next, and who comes again stands behind.
#include "env/judge/device_turn.hpp"

#include <atomic>
#include <functional>
#include <optional>
#include <thread>

#include <sys/file.h>
#include <unistd.h>

#include "env/judge/host_lock.hpp"
#include "support/test.hpp"
#include "tests/env/judge/cloned_child.hpp"

using namespace quern;

namespace {

std::string any_device() {
  return fmt::format("test-{}", ::getpid());
}

/// A second passes with each look, at which `at_look` is called.
class looked_at_clock final : public base::clock {
 public:
  explicit looked_at_clock(std::function<void(int seconds)> at_look)
      : at_look_(std::move(at_look)) {}
  [[nodiscard]] base::nanoseconds_t now_ns() const override {
    at_look_(++looks_);
    return looks_ * base::nanoseconds_t{1'000'000'000};
  }
  [[nodiscard]] int seconds() const { return looks_; }

 private:
  std::function<void(int)> at_look_;
  mutable int looks_ = 0;
};

}  // namespace

TEST_CASE("one at a time") {
  auto mine = env::device_turn::open(any_device()).value();
  auto other = env::device_turn::open(any_device()).value();
  CHECK(mine.wait(1));
  CHECK(mine.held());
  CHECK_FALSE(other.wait(0.01));
  CHECK_FALSE(other.try_take());
  CHECK_FALSE(other.held());
  mine.give_back();
  CHECK(other.try_take());
  CHECK_FALSE(mine.wait(0.01));
  other.give_back();
  CHECK(mine.try_take());
}

TEST_CASE("who gives it back and wants it again waits for the one who waited") {
  auto greedy = env::device_turn::open(any_device()).value();
  REQUIRE(greedy.wait(1));
  std::atomic<int> turns = 0;
  std::atomic<bool> waiting = false;
  std::thread patient([&] {
    auto mine = env::device_turn::open(any_device()).value();
    for (int k = 0; k < 20; ++k) {
      waiting = true;
      if (!mine.wait(30)) return;
      ++turns;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      mine.give_back();
    }
  });
  int held = 0;
  while (turns < 20 && held < 100000) {
    // Nothing is proven before the other one stands in line.
    while (!waiting)
      std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    greedy.give_back();
    REQUIRE(greedy.wait(30));
    ++held;
  }
  patient.join();
  CHECK(turns == 20);
  CHECK(held >= 10);
  // Without a place in line the other one would get its turn only by chance, once in many.
  CHECK(held <= 60);
}

TEST_CASE("a wait is no longer than it may be, however it is parted between line and device") {
  auto holder = env::device_turn::open(any_device()).value();
  REQUIRE(holder.wait(1));
  const auto line = env::open_host_lock(fmt::format("gpu-{}.queue", any_device())).value();
  REQUIRE(env::try_host_lock(line));
  const looked_at_clock clock([&](int seconds) {
    if (seconds == 10) ::flock(line.get(), LOCK_UN);
  });
  auto mine = env::device_turn::open(any_device()).value();
  CHECK_FALSE(mine.wait(15, clock));
  CHECK(clock.seconds() == 16);  // the first look tells when it began
  holder.give_back();
  CHECK(mine.wait(15, clock));
}

TEST_CASE("a turn that is over is over, whoever is being cloned meanwhile") {
  auto other = env::device_turn::open(any_device()).value();
  std::optional<env::device_turn> mine(env::device_turn::open(any_device()).value());
  REQUIRE(mine->wait(1));
  const test::cloned_child child;
  mine.reset();
  CHECK(other.try_take());
}

TEST_CASE("devices do not know each other") {
  auto one = env::device_turn::open(any_device()).value();
  auto another = env::device_turn::open(any_device() + "b").value();
  CHECK(one.wait(1));
  CHECK(another.wait(1));
}
