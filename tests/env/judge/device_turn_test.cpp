// A device by turns: who waits is next, and who comes again stands behind.
#include "env/judge/device_turn.hpp"

#include <atomic>
#include <thread>

#include <unistd.h>

#include "support/test.hpp"

using namespace quern;

namespace {

std::string any_device() {
  return fmt::format("test-{}", ::getpid());
}

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

TEST_CASE("devices do not know each other") {
  auto one = env::device_turn::open(any_device()).value();
  auto another = env::device_turn::open(any_device() + "b").value();
  CHECK(one.wait(1));
  CHECK(another.wait(1));
}
