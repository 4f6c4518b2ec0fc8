// Accounts of time: windows, pauses, restarts, several members, turns on a device.
#include "actors/decide/role_times.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/clock.hpp"
#include "base/random.hpp"
#include "support/test.hpp"

namespace {

using namespace quern;
using namespace quern::actors;
using base::operator""_ms;
using base::operator""_ns;
using base::operator""_s;

/// A window of a minute in parts of a second.
role_times make_times(nanoseconds_t now = 0) {
  return role_times({60_s, 60}, now);
}

TEST_CASE("busy, idle and what for; the origin of the clock does not matter") {
  for (const nanoseconds_t origin : {0_ns, 777_s}) {
    role_times times = make_times(origin);
    const role_member one = times.joined(run_role::generator, origin);
    times.working(one, true, origin + 1_s);
    times.waits_for(run_role::generator, role_wait::window, origin + 2_s);
    times.working(one, true, origin + 3_s);  // said twice
    times.working(one, false, origin + 4_s);
    times.did(run_role::generator, 500, origin + 4_s);
    times.waits_for(run_role::generator, role_wait::exemplars, origin + 9_s);
    const loop_time seen = times.window(origin + 10_s);
    CHECK(seen.wall == 10_s);
    const role_time& made = seen.of(run_role::generator);
    CHECK(made.busy == 3_s);
    CHECK(made.idle_for[static_cast<std::size_t>(role_wait::unknown)] == 1_s);
    CHECK(made.idle_for[static_cast<std::size_t>(role_wait::window)] == 5_s);
    CHECK(made.idle_for[static_cast<std::size_t>(role_wait::exemplars)] == 1_s);
    CHECK(made.waits_for() == role_wait::window);
    CHECK(made.busy_share() == 0.3);
    CHECK(made.absent == 0);
    CHECK(seen.per_second(run_role::generator) == 50);
    CHECK(seen.of(run_role::learner).absent == 10_s);
    CHECK(seen.of(run_role::learner).present() == 0);
    CHECK(seen.of(run_role::learner).idle_share() == 0);
    CHECK(seen == times.total(origin + 10_s));
  }
}

TEST_CASE("the window forgets, the total does not") {
  role_times times = make_times();
  const role_member one = times.joined(run_role::learner, 0);
  times.working(one, true, 0);
  times.working(one, false, 50_s);
  loop_time seen = times.window(100_s);
  // To within a part: at most the window, at least all but one part of it.
  CHECK(seen.wall <= 60_s);
  CHECK(seen.wall >= 59_s);
  CHECK(seen.of(run_role::learner).busy <= 10_s);
  CHECK(seen.of(run_role::learner).busy >= 9_s);
  CHECK(times.total(100_s).of(run_role::learner).busy == 50_s);
  // Nobody asks for a day.
  seen = times.window(86'400_s);
  CHECK(seen.wall <= 60_s);
  CHECK(seen.wall >= 59_s);
  CHECK(seen.of(run_role::learner).busy == 0);
  CHECK(seen.of(run_role::learner).idle_share() == 1);
  CHECK(times.total(86'400_s).wall == 86'400_s);
  times.working(one, true, 86'400_s);
  CHECK(times.window(86'410_s).of(run_role::learner).busy == 10_s);
}

TEST_CASE("while a run is paused no time passes for anybody") {
  role_times times = make_times();
  const role_member one = times.joined(run_role::learner, 0);
  times.working(one, true, 0);
  times.working(one, false, 4_s);
  const loop_time before = times.window(8_s);
  times.pause(true, 8_s);
  CHECK(times.window(5'000_s) == before);
  CHECK(times.total(5'000_s) == before);
  // What is done in no time would be a rate without bounds.
  times.did(run_role::learner, 7, 5'000_s);
  CHECK(times.total(5'000_s) == before);
  // What changes meanwhile counts from the end of the pause on.
  times.working(one, true, 6'000_s);
  times.pause(false, 7'000_s);
  const loop_time after = times.window(7'002_s);
  CHECK(after.wall == 10_s);
  CHECK(after.of(run_role::learner).busy == 6_s);
  CHECK(after.of(run_role::learner).idle() == 4_s);
}

TEST_CASE("a role that restarts is absent in between, and what its old member says is nothing") {
  role_times times = make_times();
  const role_member first = times.joined(run_role::generator, 0);
  times.working(first, true, 0);
  times.waited_for_device(first, 2_s, 10_s);
  times.left(first, 10_s);
  times.left(first, 11_s);
  times.working(first, true, 12_s);
  const role_member second = times.joined(run_role::generator, 15_s);
  CHECK(second != first);
  times.working(second, true, 15_s);
  times.waited_for_device(first, 9_s, 18_s);
  // Its own count begins anew, below that of the other.
  times.waited_for_device(second, 1_s, 20_s);
  const role_time made = times.window(20_s).of(run_role::generator);
  CHECK(made.absent == 5_s);
  CHECK(made.busy == 12_s);
  CHECK(made.device_wait == 3_s);
  CHECK(made.idle() == 0);
  CHECK(times.total(20_s).of(run_role::generator) == made);
}

TEST_CASE("of several generators the share is that of all") {
  role_times times = make_times();
  const role_member one = times.joined(run_role::generator, 0);
  const role_member two = times.joined(run_role::generator, 0);
  times.working(one, true, 0);
  times.working(two, true, 5_s);
  const role_time made = times.window(10_s).of(run_role::generator);
  CHECK(made.present() == 20_s);
  CHECK(made.busy_share() == 0.75);
  // One of two is there: the role is not absent.
  times.left(one, 10_s);
  CHECK(times.window(20_s).of(run_role::generator).absent == 0);
  CHECK(times.window(20_s).of(run_role::generator).present() == 30_s);
}

TEST_CASE("waiting for a device is taken out of work, never more than there was") {
  role_times times = make_times();
  const role_member one = times.joined(run_role::generator, 0);
  times.working(one, true, 0);
  times.waited_for_device(one, 3_s, 10_s);
  times.waited_for_device(one, 3_s, 12_s);  // nothing new
  CHECK(times.window(12_s).of(run_role::generator).device_wait == 3_s);
  CHECK(times.window(12_s).of(run_role::generator).busy == 9_s);
  times.working(one, false, 14_s);
  times.waited_for_device(one, 100_s, 20_s);
  const role_time made = times.window(20_s).of(run_role::generator);
  CHECK(made.device_wait == 5_s);
  CHECK(made.busy == 9_s);
  CHECK(made.idle() == 6_s);
  // A total that falls, as of a process that counts anew, is no news.
  times.working(one, true, 20_s);
  times.waited_for_device(one, 50_s, 22_s);
  CHECK(times.window(22_s).of(run_role::generator).device_wait == 5_s);
  // A step longer than the window, nearly all of it a wait.
  times.waited_for_device(one, 100_s, 22_s);
  times.waited_for_device(one, 290_s, 222_s);
  const role_time late = times.window(222_s).of(run_role::generator);
  CHECK(late.busy == 0);
  CHECK(late.device_share() == 1);
  CHECK(times.total(222_s).of(run_role::generator).device_wait == 195_s);
}

TEST_CASE("a clock that is read out of order by two threads does no harm") {
  role_times times = make_times();
  const role_member one = times.joined(run_role::control, 10_s);
  times.working(one, true, 5_s);
  times.working(one, false, 12_s);
  times.working(one, true, 11_s);
  const loop_time seen = times.window(13_s);
  CHECK(seen.wall == 13_s);
  CHECK(seen.of(run_role::control).busy == 3_s);
}

void check_sums(const loop_time& seen) {
  for (const run_role role : all_run_roles) {
    const role_time& time = seen.of(role);
    CHECK(time.busy >= 0);
    CHECK(time.device_wait >= 0);
    CHECK(time.absent >= 0);
    CHECK(time.absent <= seen.wall);
    const double sum = time.busy_share() + time.device_share() + time.idle_share();
    CHECK((time.present() == 0 ? sum == 0 : std::abs(sum - 1) < 1e-9));
  }
}

TEST_CASE("whatever happens, shares add up to 1, and spans to the whole") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    base::random_stream random(seed, "role times");
    nanoseconds_t now = static_cast<nanoseconds_t>(random.below(1'000'000));
    role_times times({10_s, 1 + random.below(20)}, now);
    std::vector<role_member> members = {0, 99};
    loop_time told, last;
    for (int event = 0; event < 400; ++event) {
      now += static_cast<nanoseconds_t>(
          random.below(random.chance(0.02) ? 30'000'000'000 : 300'000'000));
      const role_member some = members[random.below(members.size())];
      const auto role = static_cast<run_role>(random.below(run_role_count));
      switch (random.below(8)) {
        case 0:
          members.push_back(times.joined(role, now));
          break;
        case 1:
          if (random.chance(0.5)) times.left(some, now);
          break;
        case 2:
          times.waited_for_device(some, static_cast<nanoseconds_t>(random.below(9'000'000'000)),
                                  now);
          break;
        case 3:
          times.waits_for(role, all_role_waits[random.below(role_wait_count)], now);
          break;
        case 4:
          times.pause(random.chance(0.2), now);
          break;
        case 5:
          times.did(role, static_cast<std::int64_t>(random.below(9)), now);
          break;
        default:
          times.working(some, random.chance(0.6), now);
      }
      const loop_time total = times.total(now), window = times.window(now);
      check_sums(total);
      check_sums(window);
      CHECK(window.wall <= std::min<nanoseconds_t>(total.wall, 10_s));
      loop_time news = total;
      news -= last;
      last = total;
      told += news;
      for (const run_role each : all_run_roles) {
        CHECK(news.of(each).done >= 0);
        CHECK(news.of(each).busy + news.of(each).device_wait >= 0);
        CHECK(news.of(each).idle() >= 0);
      }
      REQUIRE(told == total);
    }
  }
}

}  // namespace
