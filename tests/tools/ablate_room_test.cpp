// All runs of an ablation that are left need room together.
#include "actors/config/disk_check.hpp"
#include "actors/config/fresh_model.hpp"
#include "support/test.hpp"
#include "tools/ablate/room.hpp"

using namespace quern;
using namespace quern::test;
using tools::plan_state;

TEST_CASE("the runs that are left need room together, though each by itself has it") {
  tools::ablation_plan plan;
  for (const char* name : {"grpo/seed-1", "grpo/seed-2", "contrastive-bucket/seed-1"}) {
    plan.runs.emplace_back();
    plan.runs.back().name = name;
    plan.runs.back().config.learner.steps = 100;
    plan.runs.back().config.storage.checkpoint_every_steps = 10;
    plan.runs.back().config.storage.keep_checkpoints = 3;
  }
  const actors::run_config& config = plan.runs.front().config;
  const policy::model_config model = actors::fresh_model(config, config.policy.vocabulary, 0);
  const std::filesystem::path out = "/no/such/folder";
  const auto each = static_cast<std::uint64_t>(
      actors::checkpoint_bytes_to_come(config, model, out / "grpo/seed-1"));
  // Three, the one that an incarnation began with, and the next.
  CHECK(each == static_cast<std::uint64_t>(5 * actors::checkpoint_bytes(config, model)));
  std::vector<plan_state> states(3, plan_state::missing);
  const auto check = [&](std::optional<std::uint64_t> free) {
    return tools::check_disk_of_runs(plan, states, model, out, free);
  };
  CHECK(check(3 * each));
  const auto refused = check(3 * each - 1);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == base::errc::exhausted);
  for (const char* part : {"--out /no/such/folder", "the 3 runs that are left", "keep_checkpoints"})
    CHECK(contains(refused.error().message, part));
  CHECK(check(std::nullopt));
  // One that is complete needs none; one that has begun has the rest of its own to come.
  states[1] = plan_state::complete;
  states[2] = plan_state::begun;
  CHECK(check(2 * each));
  CHECK_FALSE(check(2 * each - 1));
}
