// The bound on ages, the slots, and the logical schedule.
#include <algorithm>
#include <deque>
#include <set>

#include "actors/decide/schedule.hpp"
#include "actors/decide/staleness_window.hpp"
#include "base/random.hpp"
#include "support/test.hpp"

namespace {

using namespace quern;
using namespace quern::actors;

TEST_CASE("slots are charged at issue and freed by use") {
  staleness_window window({1, 2, staleness_policy::drop});
  CHECK(window.slots() == 4);
  for (group_id g = 1; g <= 4; ++g) {
    CHECK(window.can_issue(0, 0));
    REQUIRE(window.charge(g, 0));
  }
  CHECK_FALSE(window.can_issue(0, 0));
  CHECK_FALSE(window.charge(4, 0));
  REQUIRE(window.release(1));
  CHECK_FALSE(window.release(1));
  CHECK(window.can_issue(0, 0));
  // After a step the learner is one ahead of a generator that has not got its weights yet.
  REQUIRE(window.release(2));
  CHECK_FALSE(window.can_issue(0, 1));
  CHECK(window.can_issue(1, 1));
}

TEST_CASE("an age is never negative") {
  staleness_window window({2, 1, staleness_policy::drop});
  REQUIRE(window.charge(1, 3));
  const auto ahead = window.stamp(1, 5, 4);
  REQUIRE_FALSE(ahead);
  CHECK(ahead.error().code == base::errc::internal);
  REQUIRE(window.stamp(1, 4, 4));
  CHECK(window.age(1, 6) == 2);
  CHECK(window.within_bound(2));
  CHECK_FALSE(window.within_bound(3));
  const auto behind = window.age(1, 3);
  REQUIRE_FALSE(behind);
  CHECK(behind.error().code == base::errc::internal);
  CHECK_FALSE(window.age(9, 6));
  CHECK_FALSE(window.stamp(9, 1, 6));
}

TEST_CASE("waiting: a step may not condemn those it leaves behind") {
  staleness_window window({1, 1, staleness_policy::wait});
  REQUIRE(window.charge(1, 0));
  REQUIRE(window.charge(2, 0));
  const std::vector<group_id> one = {1};
  CHECK(window.condemned_by(one, 0).empty());
  REQUIRE(window.charge(3, 0));
  CHECK(window.condemned_by(one, 0) == std::vector<group_id>{3});
  staleness_window careless({1, 1, staleness_policy::drop});
  REQUIRE(careless.charge(1, 0));
  CHECK(careless.condemned_by({}, 9).empty());
}

/// The claim in the header: first come, first used, and no group is ever older than S.
TEST_CASE("groups that are used in order never pass the bound, and the bound is reached") {
  for (std::int64_t S = 0; S <= 4; ++S) {
    for (std::int64_t P = 1; P <= 4; ++P) {
      base::random_stream random(static_cast<std::uint64_t>(S * 10 + P), "window test");
      staleness_window window({S, P, staleness_policy::wait});
      std::deque<group_id> line;
      weights_version now = 0;
      weights_version installed = 0;
      group_id next = 1;
      std::int64_t oldest = 0;
      for (int step = 0; step < 2000; ++step) {
        if (random.chance(0.6) && window.can_issue(installed, now)) {
          REQUIRE(window.charge(next, installed));
          line.push_back(next++);
        } else if (static_cast<std::int64_t>(line.size()) >= P && random.chance(0.5)) {
          const std::vector<group_id> batch(line.begin(), line.begin() + P);
          CHECK(window.condemned_by(batch, now).empty());
          for (const auto g : batch) {
            const auto age = window.age(g, now);
            REQUIRE(age);
            CHECK(window.within_bound(*age));
            oldest = std::max(oldest, *age);
            REQUIRE(window.release(g));
            line.pop_front();
          }
          ++now;
        } else if (random.chance(0.7)) {
          installed = now;  // the weights arrive when they arrive
        }
        CHECK(window.charged() <= window.slots());
      }
      CHECK(oldest == S);
      CHECK(now > 50);
    }
  }
}

TEST_CASE("what is too old in a sample is a prefix") {
  const std::vector<segment> segments = {{0, 3, {}}, {10, 5, {}}, {25, 6, {}}};
  CHECK(stale_prefix(segments, 40, 6, 3) == 0);
  CHECK(stale_prefix(segments, 40, 6, 2) == 10);
  CHECK(stale_prefix(segments, 40, 7, 1) == 25);
  CHECK(stale_prefix(segments, 40, 9, 2) == 40);
  CHECK(stale_prefix({}, 0, 9, 2) == 0);
  const std::vector<segment> falling = {{0, 5, {}}, {10, 4, {}}};
  CHECK_FALSE(stale_prefix(falling, 40, 6, 3));
  CHECK_FALSE(stale_prefix(segments, 40, 5, 3));
}

TEST_CASE("the schedule: version, step and archive of a group follow from its number") {
  CHECK_FALSE(schedule::make(0, 1));
  CHECK_FALSE(schedule::make(1, -1));
  const auto plan = *schedule::make(4, 2);
  CHECK(plan.version_for(0) == 0);
  CHECK(plan.version_for(11) == 0);
  CHECK(plan.version_for(12) == 1);
  CHECK(plan.step_of(12) == 3);
  CHECK(plan.archive_horizon(12) == 4);
  CHECK(plan.may_sample(12, 1));
  CHECK_FALSE(plan.may_sample(12, 2));
  for (std::int64_t P = 1; P <= 5; ++P) {
    for (std::int64_t S = 0; S <= 4; ++S) {
      const auto s = *schedule::make(P, S);
      for (std::int64_t k = 0; k < 200; ++k) {
        const auto age = s.step_of(k) - s.version_for(k);
        CHECK(age <= S);
        CHECK((age == S || s.version_for(k) == 0));
        // Everything that the group's archive holds was trained before its weights existed.
        CHECK(s.archive_horizon(k) == s.first_group(s.version_for(k)));
        CHECK(s.first_group(s.step_of(k)) <= k);
      }
    }
  }
}

TEST_CASE("groups come back into issue order") {
  base::random_stream random(1, "order test");
  for (int round = 0; round < 100; ++round) {
    issue_order order(5);
    std::vector<std::int64_t> numbers;
    for (std::int64_t n = 5; n < 45; ++n)
      numbers.push_back(n);
    for (std::size_t i = numbers.size(); i > 1; --i)
      std::swap(numbers[i - 1], numbers[random.below(i)]);
    std::vector<group_id> out;
    for (const auto n : numbers) {
      REQUIRE(order.finish(n, n * 10));
      for (const auto g : order.take())
        out.push_back(g);
    }
    CHECK(out.size() == 40);
    CHECK(std::is_sorted(out.begin(), out.end()));
    CHECK(order.next() == 45);
    CHECK(order.waiting() == 0);
    CHECK_FALSE(order.finish(7, 1));
  }
  issue_order order;
  REQUIRE(order.finish(3, 1));
  CHECK_FALSE(order.finish(3, 1));
}

TEST_CASE("policies have names") {
  for (const auto policy :
       {staleness_policy::drop, staleness_policy::wait, staleness_policy::mask_tokens}) {
    CHECK(parse_staleness_policy(to_string(policy)) == policy);
  }
  CHECK_FALSE(parse_staleness_policy("hope"));
}

}  // namespace
