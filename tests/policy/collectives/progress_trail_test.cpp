// What the others learn of a rank whose host runs ahead of its device.
#include "policy/collectives/progress_trail.hpp"

#include <atomic>

#include "policy/collectives/joined_ranks.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::policy;
using base::operator""_s;
using quern::test::joined_ranks;

namespace {

/// A device that has done as much of what it was given as the test says.
struct slow_device {
  std::atomic<int> done = 0;
  int queued = 0;
  progress_trail::mark mark() {
    return [this, here = ++queued] { return done >= here; };
  }
};

constexpr watch_limits short_limits{60'000'000'000, 1'000'000'000, 600'000'000};

/// The steps of a rank: two buckets of gradients, then the optimiser. The device does `done` of
/// them, the host waits for the first bucket.
void run_ahead(progress_trail& trail, slow_device& device, int done) {
  device.done = done;
  trail.at("backward", 7, device.mark());
  const auto first = trail.enter("gradients of head", device.mark());
  trail.progress(device.mark());
  trail.enter("gradients of layer.0", device.mark());
  trail.at("optimiser", 7, device.mark());
  trail.begin_wait(first, "gradients of head");
}

}  // namespace

TEST_CASE("a phase is told when the device has come to it, whatever else the host does then") {
  joined_ranks group(1, {});
  rendezvous& link = *group.ranks[0];
  progress_trail trail(link);
  slow_device device;
  link.at("idle", 6);
  trail.at("backward", 7, device.mark());
  trail.progress(device.mark());
  trail.at("optimiser", 7, device.mark());
  CHECK(link.where() == "idle, version 6");
  device.done = 1;
  trail.look();
  CHECK(link.where() == "backward, version 7");
  device.done = 3;
  // Nobody looks: the trail's own thread does.
  const base::steady_clock clock;
  const auto deadline = clock.now_ns() + 20_s;
  while (link.where() != "optimiser, version 7" && clock.now_ns() < deadline)
    std::this_thread::yield();
  CHECK(link.where() == "optimiser, version 7");
}

TEST_CASE("on the host everything is told at once, and nothing overtakes a mark") {
  joined_ranks group(1, {});
  rendezvous& link = *group.ranks[0];
  progress_trail trail(link);
  trail.at("backward", 7, {});
  CHECK(link.where() == "backward, version 7");
  slow_device device;
  trail.at("gathering", 7, device.mark());
  trail.at("idle", 8, {});
  CHECK(link.where() == "backward, version 7");
  device.done = 1;
  trail.look();
  CHECK(link.where() == "idle, version 8");
}

TEST_CASE(
    "a kernel that hangs is named by the phase that it is in, not by what was queued behind") {
  joined_ranks group(2, short_limits);
  REQUIRE((group.ranks[0] && group.ranks[1]));
  progress_trail well(*group.ranks[0]), hanging(*group.ranks[1]);
  slow_device fast, stuck;
  run_ahead(well, fast, 100);
  run_ahead(hanging, stuck, 1);
  const auto verdict = group.ranks[0]->wait_failure(20_s);
  REQUIRE(verdict);
  CHECK(verdict->rank == 1);
  CHECK(verdict->fault == rank_fault::stalled);
  CHECK(quern::test::contains(verdict->text(), "last seen in backward, version 7"));
  CHECK(quern::test::contains(group.ranks[0]->where(), "optimiser"));
  well.end_wait();
  hanging.end_wait();
}

TEST_CASE("ranks whose devices are all in a collective are stuck in the one that hosts wait for") {
  joined_ranks group(2, short_limits);
  REQUIRE((group.ranks[0] && group.ranks[1]));
  progress_trail one(*group.ranks[0]), other(*group.ranks[1]);
  slow_device first, second;
  run_ahead(one, first, 4);
  run_ahead(other, second, 4);
  const auto verdict = group.ranks[1]->wait_failure(20_s);
  REQUIRE(verdict);
  CHECK(verdict->fault == rank_fault::stuck);
  CHECK(quern::test::contains(verdict->text(), "backward, waiting in gradients of head"));
  one.end_wait();
  other.end_wait();
}

TEST_CASE("a device that goes on slowly is no failure, though others wait") {
  // It moves every 0.3 s and is waited for for 3 s: longer than a rank may stand still.
  joined_ranks group(2, {60'000'000'000, 5'000'000'000, 2'000'000'000});
  REQUIRE((group.ranks[0] && group.ranks[1]));
  progress_trail well(*group.ranks[0]), slow(*group.ranks[1]);
  slow_device fast, behind;
  run_ahead(well, fast, 100);
  for (int i = 0; i < 10; ++i)
    slow.progress(behind.mark());
  run_ahead(slow, behind, 0);
  for (int i = 0; i < 10; ++i) {
    CHECK_FALSE(group.ranks[0]->wait_failure(300'000'000));
    ++behind.done;
    slow.look();
  }
  behind.done = 100;
  well.end_wait();
  slow.end_wait();
}
