// Who waits for whom before a measurement (env/gpu/quiet.hpp).
#include "env/gpu/quiet.hpp"

#include <atomic>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>

#include <unistd.h>

#include "base/file.hpp"
#include "env/judge/host_lock.hpp"
#include "support/private_device.hpp"
#include "support/test.hpp"

using quern::env::device_quiet;

namespace {

/// Time enough for another thread to go on, had it been let.
void give_others_a_chance() {
  for (int i = 0; i < 2000; ++i)
    std::this_thread::yield();
}

void remove_locks(std::initializer_list<std::string> bus_ids) {
  std::error_code ignored;
  for (const auto& bus_id : bus_ids)
    std::filesystem::remove(quern::env::host_lock_folder() / ("quern-gpu-" + bus_id + ".quiet"),
                            ignored);
}

/// Whether what would disturb waits at `there` for a measurement at `here`, and comes behind it.
bool waits(device_quiet& here, device_quiet& there) {
  std::atomic<bool> asks{false}, came{false};
  std::optional<device_quiet::hold> measurement(std::in_place, here);
  std::thread other([&] {
    asks = true;
    const device_quiet::disturbance late(there);
    came = true;
  });
  while (!asks)
    std::this_thread::yield();
  give_others_a_chance();
  const bool waited = !came;
  measurement.reset();
  other.join();
  return waited && came;
}

}  // namespace

TEST_CASE("What would disturb waits for the end of a measurement") {
  device_quiet quiet;
  CHECK(waits(quiet, quiet));
  CHECK_FALSE(quiet.disturbed());
}

TEST_CASE("A measurement waits for what disturbs") {
  device_quiet quiet;
  std::atomic<bool> asks{false}, measures{false};
  std::optional<device_quiet::disturbance> noise(std::in_place, quiet);
  CHECK(quiet.disturbed());
  std::thread measurement([&] {
    asks = true;
    const device_quiet::hold hold(quiet);
    measures = true;
  });
  while (!asks)
    std::this_thread::yield();
  give_others_a_chance();
  CHECK_FALSE(measures);
  noise.reset();
  measurement.join();
  CHECK(measures);
}

TEST_CASE("Several may disturb at once, and each is noticed") {
  device_quiet quiet;
  const auto before = quiet.epoch();
  const device_quiet::disturbance one(quiet), two(quiet);
  CHECK(quiet.disturbed());
  CHECK(quiet.epoch() != before);
}

TEST_CASE("What can stand still does so while anything is measured, and is not waited for") {
  device_quiet quiet;
  int stood = 0, went_on = 0;
  std::optional<device_quiet::interruptible> context(
      std::in_place, quiet, [&](bool still) { ++(still ? stood : went_on); });
  CHECK(quiet.disturbed());
  const auto before = quiet.epoch();
  {
    const device_quiet::hold outer(quiet);
    CHECK(stood == 1);
    CHECK_FALSE(quiet.disturbed());
    {
      const device_quiet::hold inner(quiet);
      CHECK(stood == 1);
    }
    quiet.let_go_on();
    CHECK(went_on == 0);
  }
  CHECK(went_on == 1);
  CHECK(quiet.disturbed());
  CHECK(quiet.epoch() > before + 1);
  // What ends while it stands is not left standing.
  std::optional<device_quiet::hold> last(std::in_place, quiet);
  CHECK(stood == 2);
  std::atomic<bool> asks{false}, ended{false};
  std::thread other([&] {
    asks = true;
    context.reset();
    ended = true;
  });
  while (!asks)
    std::this_thread::yield();
  give_others_a_chance();
  CHECK_FALSE(ended);
  CHECK(went_on == 1);
  last.reset();
  other.join();
  CHECK(went_on == 2);
  CHECK_FALSE(quiet.disturbed());
}

TEST_CASE("A new one waits for the end of a measurement") {
  device_quiet quiet;
  std::atomic<bool> asks{false}, came{false}, stopped{false};
  std::optional<device_quiet::hold> measurement(std::in_place, quiet);
  std::thread other([&] {
    asks = true;
    const device_quiet::interruptible late(quiet, [&](bool) { stopped = true; });
    came = true;
  });
  while (!asks)
    std::this_thread::yield();
  give_others_a_chance();
  CHECK_FALSE(came);
  measurement.reset();
  other.join();
  CHECK(came);
  CHECK_FALSE(stopped);
}

TEST_CASE("What stands still for one evaluator leaves another's measurement alone") {
  const std::string name = "test-quiet-still-" + std::to_string(getpid());
  device_quiet here(name), there(name);
  int stood = 0, went_on = 0;
  std::optional<device_quiet::interruptible> context(
      std::in_place, here, [&](bool still) { ++(still ? stood : went_on); });
  std::optional<device_quiet::hold> mine(std::in_place, here);
  CHECK(stood == 1);
  std::atomic<bool> measures{false};
  std::optional<device_quiet::hold> other;
  std::thread another([&] {
    other.emplace(there);
    measures = true;
  });
  give_others_a_chance();
  CHECK_FALSE(measures);
  mine.reset();
  // Either the other came first, and it stands until somebody asks for it behind the other's end;
  // or it goes on, and the other waits for its end.
  if (went_on == 1) context.reset();
  another.join();
  CHECK(measures);
  CHECK(went_on == (context ? 0 : 1));
  if (context) {
    here.let_go_on();
    CHECK(went_on == 0);
    other.reset();
    here.let_go_on();
    CHECK(went_on == 1);
  }
  remove_locks({name});
}

TEST_CASE("Evaluators of one device keep quiet for each other, those of two do not") {
  const std::string name = "test-quiet-" + std::to_string(getpid());
  device_quiet here(name), there(name), elsewhere(name + "-2");
  CHECK(waits(here, there));
  CHECK_FALSE(waits(here, elsewhere));
  remove_locks({name, name + "-2"});
}

TEST_CASE("Evaluators that share nothing but the node of their device keep quiet for each other") {
  const std::string name = "test-quiet-node-" + std::to_string(getpid());
  const auto folder = quern::base::temp_folder::make("quern-quiet-test").value();
  const auto file = folder.path() / "nvidia7";
  REQUIRE(quern::base::write_file_atomic(file, "").has_value());
  const quern::test::private_device device;
  for (const auto& node : {file, device.node()}) {
    CAPTURE(node.string());
    device_quiet here(name, node), there(name + "-2", node);
    CHECK(waits(here, there));
    // Once more, with what was opened before.
    CHECK(waits(there, here));
  }
  remove_locks({name, name + "-2"});
}
