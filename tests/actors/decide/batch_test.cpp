// Groups that complete, and batches made of them.
#include "actors/decide/batcher.hpp"
#include "actors/decide/group_book.hpp"
#include "support/test.hpp"

namespace {

using namespace quern;
using namespace quern::actors;

TEST_CASE("a group trains with what remains if at least two do") {
  for (int evaluated = 0; evaluated <= 4; ++evaluated) {
    group_book groups;
    REQUIRE(groups.open(1, 0, {10, 11, 12, 13}));
    std::optional<group_resolution> last;
    for (int k = 0; k < 4; ++k) {
      CHECK_FALSE(last);
      const auto result = k < evaluated ? groups.evaluated(10 + k) : groups.dropped(10 + k);
      REQUIRE(result);
      last = *result;
    }
    REQUIRE(last);
    CHECK(last->trains == (evaluated >= 2));
    CHECK(last->members.size() == static_cast<std::size_t>(evaluated >= 2 ? evaluated : 0));
    CHECK(last->leftover.size() == static_cast<std::size_t>(evaluated == 1 ? 1 : 0));
    CHECK(groups.open_groups() == 0);
    CHECK_FALSE(groups.group_of(10));
  }
}

TEST_CASE("a group that lost more than half of its members to infrastructure does not train") {
  for (int lost = 0; lost <= 6; ++lost) {
    group_book groups;
    REQUIRE(groups.open(1, 0, {10, 11, 12, 13, 14, 15}));
    std::optional<group_resolution> last;
    for (int k = 0; k < 6; ++k) {
      const auto result =
          k < lost ? groups.dropped(10 + k, loss::of_infrastructure) : groups.evaluated(10 + k);
      REQUIRE(result);
      last = *result;
    }
    REQUIRE(last);
    CHECK(last->trains == (lost <= 3));
    CHECK(last->mostly_lost == (lost > 3));
    CHECK(last->leftover.size() == static_cast<std::size_t>(lost > 3 ? 6 - lost : 0));
  }
  // What samples lost by themselves does not count.
  group_book groups;
  REQUIRE(groups.open(1, 0, {10, 11, 12, 13, 14}));
  for (int k = 0; k < 3; ++k)
    REQUIRE(groups.dropped(10 + k));
  REQUIRE(groups.evaluated(13));
  CHECK(groups.evaluated(14).value()->trains);
}

TEST_CASE("samples end once, in groups that make sense") {
  group_book groups;
  CHECK_FALSE(groups.open(1, 0, {10}));
  CHECK_FALSE(groups.open(1, 0, {10, 10}));
  REQUIRE(groups.open(1, 0, {10, 11}));
  CHECK_FALSE(groups.open(1, 1, {12, 13}));
  CHECK_FALSE(groups.open(2, 1, {11, 13}));
  CHECK(groups.group_of(11) == 1);
  CHECK_FALSE(groups.evaluated(99));
  REQUIRE(groups.evaluated(10));
  CHECK_FALSE(groups.evaluated(10));
  CHECK_FALSE(groups.dropped(10));
}

ready_group ready(group_id group, std::vector<segment> segments = {{0, 0, {}}}) {
  const auto sample = group * 10;
  return {group, group, {{sample, 20, segments}, {sample + 1, 20, segments}}};
}

TEST_CASE("the oldest first, P at a time") {
  staleness_window window({3, 2, staleness_policy::drop});
  batcher batches(2);
  for (const auto& [group, version] :
       std::vector<std::pair<group_id, int>>{{1, 2}, {2, 1}, {3, 2}}) {
    REQUIRE(window.charge(group, version));
    REQUIRE(batches.add(ready(group)));
  }
  CHECK_FALSE(batches.add(ready(1)));
  const auto plan = batches.plan(2, window);
  REQUIRE(plan);
  REQUIRE(plan->next);
  REQUIRE(plan->next->groups.size() == 2);
  CHECK(plan->next->groups[0].group == 2);
  CHECK(plan->next->groups[0].age == 1);
  CHECK(plan->next->groups[1].group == 1);
  CHECK(batches.waiting() == 1);
  CHECK_FALSE(batches.plan(2, window)->next);
}

TEST_CASE("drop: groups that are too old are taken out, batch or not") {
  staleness_window window({1, 2, staleness_policy::drop});
  batcher batches(2);
  REQUIRE(window.charge(1, 0));
  REQUIRE(window.charge(2, 1));
  REQUIRE(batches.add(ready(1)));
  REQUIRE(batches.add(ready(2)));
  const auto plan = batches.plan(2, window);
  REQUIRE(plan);
  CHECK(plan->too_old == std::vector<group_id>{1});
  CHECK_FALSE(plan->next);
  CHECK(batches.waiting() == 1);
}

TEST_CASE("mask_tokens: old tokens are masked, samples without young ones dropped") {
  staleness_window window({1, 1, staleness_policy::mask_tokens});
  batcher batches(1);
  ready_group group{
      1, 0, {{10, 20, {{0, 0, {}}, {5, 2, {}}}}, {11, 20, {{0, 0, {}}}}, {12, 20, {{0, 1, {}}}}}};
  REQUIRE(window.charge(1, 0));
  REQUIRE(batches.add(group));
  const auto plan = batches.plan(2, window);
  REQUIRE(plan);
  REQUIRE(plan->next);
  const auto& members = plan->next->groups[0].members;
  REQUIRE(members.size() == 2);
  CHECK(members[0].sample == 10);
  CHECK(members[0].masked_tokens == 5);
  CHECK(members[1].sample == 12);
  CHECK(members[1].masked_tokens == 0);
  CHECK(plan->fully_masked == std::vector<sample_id>{11});
  // One young sample is no group.
  batcher alone(1);
  group.samples.pop_back();
  REQUIRE(alone.add(group));
  const auto none = alone.plan(2, window);
  CHECK_FALSE(none->next);
  CHECK(none->too_old == std::vector<group_id>{1});
}

TEST_CASE("wait: the step waits for an older group, but not for what cannot come") {
  staleness_window window({0, 1, staleness_policy::wait});
  batcher batches(1);
  REQUIRE(window.charge(1, 0));  // under way
  REQUIRE(window.charge(2, 0));
  REQUIRE(batches.add(ready(2)));
  auto plan = batches.plan(0, window);
  REQUIRE(plan);
  CHECK_FALSE(plan->next);
  CHECK(plan->waits_for == std::vector<group_id>{1});
  CHECK(batches.waiting() == 1);
  // Both complete: one of them must become too old, and waiting would not help.
  REQUIRE(batches.add(ready(1)));
  plan = batches.plan(0, window);
  REQUIRE(plan->next);
  CHECK(plan->next->groups[0].group == 1);
}

TEST_CASE("deterministic batches: everything below the horizon, however few") {
  staleness_window window({0, 3, staleness_policy::drop});
  batcher batches(3);
  for (group_id g : {0, 2, 4}) {
    REQUIRE(window.charge(g, 0));
    REQUIRE(batches.add(ready(g)));
  }
  const auto plan = batches.plan_until(3, 0, window);
  REQUIRE(plan);
  REQUIRE(plan->next);
  CHECK(plan->next->groups.size() == 2);
  CHECK(batches.plan_until(3, 0, window)->next->groups.empty());
}

}  // namespace
