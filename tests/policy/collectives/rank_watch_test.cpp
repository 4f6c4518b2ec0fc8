// Which rank is blamed, and when, by a clock in the hand.
#include "policy/collectives/rank_watch.hpp"

#include "support/test.hpp"

using namespace quern;
using namespace quern::policy;
using base::operator""_s;

namespace {

constexpr watch_limits limits{60_s, 5_s, 8_s};

/// A watch over ranks that are all here and beat once a second as they are told.
struct watched {
  explicit watched(std::int32_t count) : watch(count, limits, 0), where(count), alive(count, true) {
    for (std::int32_t i = 0; i < count; ++i)
      watch.joined(i, 0);
  }
  void pass(int seconds) {
    for (int s = 0; s < seconds && !watch.judge(now); ++s) {
      now += 1_s;
      for (std::size_t i = 0; i < where.size(); ++i)
        if (alive[i]) watch.beat(static_cast<std::int32_t>(i), where[i], now);
    }
  }
  rank_watch watch;
  std::vector<rank_beat> where;
  std::vector<bool> alive;
  base::nanoseconds_t now = 0;
};

rank_beat in(std::string phase, std::uint64_t sequence, bool waiting = false) {
  return {sequence, 0, 12, waiting, std::move(phase)};
}

}  // namespace

TEST_CASE("ranks that compute, wait a little and go on are left alone") {
  watched group(3);
  for (std::uint64_t step = 1; step < 20; ++step) {
    for (rank_beat& one : group.where)
      one = in("backward", step, step % 2 == 0);
    group.pass(7);
  }
  CHECK_FALSE(group.watch.judge(group.now));
}

TEST_CASE("a connection that breaks is blamed at once, with where the rank was") {
  watched group(4);
  group.where[2] = in("backward", 7);
  group.pass(1);
  group.watch.gone(2);
  const auto verdict = group.watch.judge(group.now);
  REQUIRE(verdict);
  CHECK(verdict->rank == 2);
  CHECK(verdict->fault == rank_fault::gone);
  CHECK(verdict->text().find("rank 2 is gone") == 0);
  CHECK(verdict->text().find("backward, version 12") != std::string::npos);
}

TEST_CASE("a rank that is silent is blamed after the limit, not before") {
  watched group(3);
  group.pass(1);
  group.alive[1] = false;
  group.pass(4);
  CHECK_FALSE(group.watch.judge(group.now));
  group.pass(2);
  const auto verdict = group.watch.judge(group.now);
  REQUIRE(verdict);
  CHECK(verdict->rank == 1);
  CHECK(verdict->fault == rank_fault::silent);
}

TEST_CASE("a rank that lives but does not come to the collective is blamed, not those who wait") {
  watched group(4);
  for (rank_beat& one : group.where)
    one = in("gradients", 5, true);
  group.where[3] = in("backward", 4);
  group.pass(7);
  CHECK_FALSE(group.watch.judge(group.now));
  group.pass(3);
  const auto verdict = group.watch.judge(group.now);
  REQUIRE(verdict);
  CHECK(verdict->rank == 3);
  CHECK(verdict->fault == rank_fault::stalled);
}

TEST_CASE("a rank that is late but computes is waited for") {
  watched group(2);
  group.where[0] = in("gradients", 5, true);
  for (int i = 0; i < 30; ++i) {
    group.where[1] = in("backward", 4);
    group.where[1].progress = static_cast<std::uint64_t>(i);
    group.pass(1);
  }
  CHECK_FALSE(group.watch.judge(group.now));
}

TEST_CASE("a collective that all are in and that does not end") {
  watched group(3);
  for (rank_beat& one : group.where)
    one = in("gradients", 9, true);
  group.pass(10);
  const auto verdict = group.watch.judge(group.now);
  REQUIRE(verdict);
  CHECK(verdict->fault == rank_fault::stuck);
  CHECK(verdict->text().find("all ranks are in it") != std::string::npos);
}

TEST_CASE("ranks that go from one wait to the next between two beats are not stuck") {
  watched group(3);
  // All collectives were entered ahead: only progress tells that they end one by one.
  for (int second = 0; second < 60; ++second) {
    for (rank_beat& one : group.where) {
      one = in("gradients", 9, true);
      one.progress = static_cast<std::uint64_t>(second / 3);
    }
    group.pass(1);
  }
  CHECK_FALSE(group.watch.judge(group.now));
  group.pass(10);
  const auto verdict = group.watch.judge(group.now);
  REQUIRE(verdict);
  CHECK(verdict->fault == rank_fault::stuck);
}

TEST_CASE("a good-bye is a failure only to those who wait for the rank") {
  watched group(2);
  group.where = {in("end", 3), in("end", 3)};
  group.pass(1);
  group.alive[1] = false;
  group.watch.left(1);
  group.pass(20);
  CHECK_FALSE(group.watch.judge(group.now));
  group.where[0] = in("gradients", 4, true);
  group.pass(1);
  const auto verdict = group.watch.judge(group.now);
  REQUIRE(verdict);
  CHECK(verdict->fault == rank_fault::left);
}

TEST_CASE("a rank that never comes, and a verdict that stays") {
  rank_watch watch(3, limits, 0);
  watch.joined(0, 0);
  watch.joined(2, 0);
  for (base::nanoseconds_t now = 0; now < 60_s; now += 1_s)
    for (const std::int32_t rank : {0, 2})
      watch.beat(rank, in("rendezvous", 0), now);
  CHECK_FALSE(watch.complete());
  CHECK_FALSE(watch.judge(59_s));
  REQUIRE(watch.judge(60_s));
  CHECK(watch.judge(60_s)->rank == 1);
  CHECK(watch.judge(60_s)->fault == rank_fault::absent);
  watch.gone(0);
  CHECK(watch.judge(61_s)->rank == 1);
}

TEST_CASE("a rank that is busy is waited for as long as that may take, then blamed") {
  for (const bool others_wait : {true, false}) {
    CAPTURE(others_wait);
    watched group(3);
    if (others_wait)
      for (rank_beat& one : group.where)
        one = in("start", 1, true);
    const auto load = [&](int seconds) {
      for (int s = 0; s < seconds && !group.watch.judge(group.now); ++s) {
        group.where[1] = in("loading", 0);
        group.where[1].busy_for = group.now + 1_s;
        group.where[1].busy_limit = 600_s;
        group.pass(1);
      }
    };
    load(599);
    CHECK_FALSE(group.watch.judge(group.now));
    load(2);
    const auto verdict = group.watch.judge(group.now);
    REQUIRE(verdict);
    CHECK(verdict->rank == 1);
    CHECK(verdict->fault == rank_fault::overdue);
    CHECK(verdict->text() ==
          "rank 1 lives but is busy for 600.0 s with what may take 600.0 s (last seen in loading, "
          "version 12)");
  }
}

TEST_CASE("a rank that was busy and is idle now is held to the limit of a step again") {
  watched group(2);
  group.where[1] = in("saving", 4);
  group.where[1].busy_limit = 600_s;
  group.where[0] = in("gradients", 5, true);
  group.pass(60);
  CHECK_FALSE(group.watch.judge(group.now));
  group.where[1] = in("waiting for a batch", 4);
  group.pass(7);
  CHECK_FALSE(group.watch.judge(group.now));
  group.pass(3);
  const auto verdict = group.watch.judge(group.now);
  REQUIRE(verdict);
  CHECK(verdict->rank == 1);
  CHECK(verdict->fault == rank_fault::stalled);
  CHECK(verdict->text().find("waiting for a batch, version 12") != std::string::npos);
}

namespace {

/// A host that has begun a collective and has not come back from its driver: it tells nothing.
rank_beat in_driver(std::uint64_t begun, std::uint64_t sequence) {
  rank_beat where = in("backward", sequence);
  where.begun = begun;
  where.unfinished = true;
  return where;
}

rank_beat idle(std::uint64_t sequence) {
  rank_beat where = in("waiting for a batch", sequence);
  where.begun = sequence;
  return where;
}

}  // namespace

TEST_CASE("a rank that does not come is blamed though the other's host cannot say that it waits") {
  // Also where the device of the other has not been seen to enter the collective.
  for (const std::uint64_t entered : {4, 5}) {
    CAPTURE(entered);
    watched group(3);
    group.where = {in_driver(5, entered), idle(4), in_driver(5, entered)};
    group.pass(15);
    CHECK_FALSE(group.watch.judge(group.now));
    group.pass(3);
    const auto verdict = group.watch.judge(group.now);
    REQUIRE(verdict);
    CHECK(verdict->rank == 1);
    CHECK(verdict->fault == rank_fault::stalled);
    CHECK(quern::test::contains(verdict->text(), "waiting for a batch, version 12"));
  }
}

TEST_CASE("hosts in their drivers are left alone where nobody is behind, moves not, and may not") {
  const auto judged = [](const rank_beat& first, const rank_beat& second) {
    watched group(2);
    group.where = {first, second};
    group.pass(60);
    return group.watch.judge(group.now).has_value();
  };
  rank_beat loading = idle(4);
  loading.busy_limit = 600_s;
  CHECK_FALSE(judged(in_driver(5, 4), in_driver(5, 4)));
  CHECK_FALSE(judged(in_driver(5, 4), loading));
  CHECK_FALSE(judged(idle(5), idle(4)));
  // The one that is behind computes.
  watched group(2);
  for (int i = 0; i < 60; ++i) {
    group.where = {in_driver(5, 4), in("backward", 4)};
    group.where[1].progress = static_cast<std::uint64_t>(i);
    group.pass(1);
  }
  CHECK_FALSE(group.watch.judge(group.now));
}

TEST_CASE("connections take their time; who does not come to them is blamed as ever") {
  const auto connecting = [](std::uint64_t sequence) {
    rank_beat where = in("connecting", sequence, true);
    where.connecting = true;
    return where;
  };
  watched all(3);
  for (rank_beat& one : all.where)
    one = connecting(1);
  all.pass(119);
  CHECK_FALSE(all.watch.judge(all.now));
  all.pass(3);
  REQUIRE(all.watch.judge(all.now));
  CHECK(all.watch.judge(all.now)->fault == rank_fault::stuck);

  watched absent(3);
  for (rank_beat& one : absent.where)
    one = connecting(1);
  absent.where[2] = in("rendezvous", 0);
  absent.pass(10);
  REQUIRE(absent.watch.judge(absent.now));
  CHECK(absent.watch.judge(absent.now)->rank == 2);
  CHECK(absent.watch.judge(absent.now)->fault == rank_fault::stalled);

  // It has come, and hangs before it waits.
  watched hanging(3);
  for (rank_beat& one : hanging.where)
    one = connecting(1);
  hanging.where[1] = in("connecting", 1);
  hanging.pass(119);
  CHECK_FALSE(hanging.watch.judge(hanging.now));
  hanging.pass(3);
  REQUIRE(hanging.watch.judge(hanging.now));
  CHECK(hanging.watch.judge(hanging.now)->rank == 1);
  CHECK(hanging.watch.judge(hanging.now)->fault == rank_fault::stalled);
}
