// Samples in memory: they leave one by one, their group with the last of them.
#include "actors/orchestrator/live_samples.hpp"

#include "support/test.hpp"

using namespace quern;
using namespace quern::actors;

namespace {

live_samples two_groups() {
  live_samples all;
  all.issue(1, {"task", "prompt", {7, 8}, {10, 11}});
  all.issue(2, {"task", "prompt", {}, {20}});
  return all;
}

batch first_group() {
  batch chosen;
  chosen.from = 5;
  batch_group group;
  group.group = 1;
  for (const sample_id id : {10, 11}) {
    batch_member member;
    member.sample = id;
    group.members.push_back(member);
  }
  chosen.groups.push_back(group);
  return chosen;
}

}  // namespace

TEST_CASE("a group leaves with its last sample, and no other does") {
  live_samples all = two_groups();
  REQUIRE(all.find(10) != nullptr);
  CHECK(all.group_of(all.at(10)).exemplars == std::vector<std::int64_t>{7, 8});
  all.forget(10);
  all.forget(10);
  CHECK(all.find(10) == nullptr);
  CHECK(all.find_group(1) != nullptr);
  all.forget(11);
  CHECK(all.find_group(1) == nullptr);
  CHECK(all.find_group(2) != nullptr);
  all.clear();
  CHECK(all.find(20) == nullptr);
}

TEST_CASE("what the dispatcher has is counted") {
  live_samples all = two_groups();
  CHECK(all.judging() == 0);
  all.at(10).judging = all.at(20).judging = true;
  CHECK(all.judging() == 2);
  all.forget(20);
  CHECK(all.judging() == 1);
}

TEST_CASE("a batch has the ages, rewards and tokens of its own samples alone") {
  live_samples all = two_groups();
  all.at(10).made.versions = {{0, 3, {}}};
  all.at(11).made.versions = {{0, 5, {}}, {2, 6, {}}};
  all.at(20).made.versions = {{0, 1, {}}};
  all.at(11).reward = 1.5;
  all.at(11).made.tokens = "tokens";
  CHECK(all.ages(first_group()) == std::map<std::int64_t, std::int64_t>{{0, 1}, {2, 1}});
  const step_results results = all.results(first_group());
  CHECK(results.step == 6);
  CHECK(results.samples == 2);
  CHECK(results.reward_sum == 1.5);
  const auto training = all.training(first_group());
  REQUIRE(training.size() == 2);
  CHECK(training[0].sample == 10);
  CHECK(training[0].reward == 0.0);
  CHECK(training[1].group == 1);
  CHECK(training[1].reward == 1.5);
  CHECK(training[1].tokens == "tokens");
}
