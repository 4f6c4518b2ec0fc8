// Where runs of an ablation are made side by side, and which one begins next.
#include <set>

#include "support/test.hpp"
#include "tools/ablate/places.hpp"
#include "tools/ablate/schedule.hpp"

using namespace quern;
using namespace quern::test;
using tools::plan_state;

namespace {

tools::planned_run run_of(const std::string& name, std::int64_t evaluations,
                          std::optional<std::size_t> begins_with = std::nullopt) {
  tools::planned_run made;
  made.name = name;
  made.evaluations = evaluations;
  made.begins_with = begins_with;
  return made;
}

/// Two short runs, then a stage that two long ones begin with.
tools::ablation_plan small_plan() {
  tools::ablation_plan plan;
  plan.runs = {run_of("vanilla", 0), run_of("evolve", 50), run_of("shared", 30),
               run_of("grpo", 100, 2), run_of("contrastive", 100, 2)};
  return plan;
}

std::vector<plan_state> all_missing() {
  return std::vector<plan_state>(5, plan_state::missing);
}

}  // namespace

TEST_CASE("the longest chain begins first, and a run waits for the one that gives its weights") {
  const auto plan = small_plan();
  tools::ablation_schedule schedule(plan, all_missing());
  CHECK(schedule.left() == 5);
  CHECK(schedule.next() == 2);  // 130 evaluations are ahead of it
  CHECK(schedule.next() == 1);
  CHECK(schedule.next() == 0);
  CHECK_FALSE(schedule.next());  // the other two wait
  CHECK(schedule.left() == 5);
  schedule.ended(2, true);
  CHECK(schedule.next() == 3);
  CHECK(schedule.next() == 4);
  CHECK_FALSE(schedule.next());
  for (const std::size_t run : {0, 1, 3, 4})
    schedule.ended(run, true);
  CHECK(schedule.left() == 0);
  CHECK_FALSE(schedule.next());
}

TEST_CASE("of equal runs those of the first seed begin first, whatever their arm") {
  tools::ablation_plan plan;
  plan.seeds = {7, 3};
  for (const char* arm : {"grpo", "contrastive"})
    for (const std::int64_t seed : {3, 7}) {
      plan.runs.push_back(run_of(arm, 100));
      plan.runs.back().seed = seed;
    }
  tools::ablation_schedule schedule(plan, std::vector<plan_state>(4, plan_state::missing));
  std::vector<std::size_t> order;
  while (const auto run = schedule.next())
    order.push_back(*run);
  CHECK(order == std::vector<std::size_t>{1, 3, 0, 2});
}

TEST_CASE("of equal runs of a seed one that shows kernels begins first: it takes longer") {
  tools::ablation_plan plan;
  plan.seeds = {1, 2};
  for (const char* exemplars : {"none", "bucket"})
    for (const std::int64_t seed : plan.seeds) {
      plan.runs.push_back(run_of(exemplars, 100));
      plan.runs.back().seed = seed;
      plan.runs.back().config.replay.exemplars = exemplars;
    }
  tools::ablation_schedule schedule(plan, std::vector<plan_state>(4, plan_state::missing));
  std::vector<std::size_t> order;
  while (const auto run = schedule.next())
    order.push_back(*run);
  CHECK(order == std::vector<std::size_t>{2, 0, 3, 1});
}

TEST_CASE("of equal runs of a seed one that others wait for begins first") {
  tools::ablation_plan plan;
  plan.seeds = {1};
  plan.runs = {run_of("evolve", 130), run_of("shared", 30), run_of("grpo", 100, 1),
               run_of("contrastive", 100, 1)};
  for (tools::planned_run& run : plan.runs)
    run.seed = 1;
  plan.runs[1].config.replay.exemplars = plan.runs[2].config.replay.exemplars = "none";
  tools::ablation_schedule schedule(plan, std::vector<plan_state>(4, plan_state::missing));
  CHECK(schedule.next() == 1);
  CHECK(schedule.next() == 0);
  schedule.ended(1, true);
  CHECK(schedule.next() == 3);
  CHECK(schedule.next() == 2);
}

TEST_CASE("what is complete is not made again, what has begun is") {
  const auto plan = small_plan();
  auto states = all_missing();
  states[1] = states[2] = plan_state::complete;
  states[3] = plan_state::begun;
  tools::ablation_schedule schedule(plan, states);
  std::set<std::size_t> given;
  while (const auto run = schedule.next())
    given.insert(*run);
  CHECK(given == std::set<std::size_t>{0, 3, 4});
}

TEST_CASE("a run that failed holds back those that begin with it, and no other") {
  const auto plan = small_plan();
  tools::ablation_schedule schedule(plan, all_missing());
  REQUIRE(schedule.next() == 2);
  schedule.ended(2, false);
  CHECK(schedule.next() == 1);
  CHECK(schedule.next() == 0);
  CHECK_FALSE(schedule.next());
  schedule.ended(1, true);
  schedule.ended(0, true);
  CHECK_FALSE(schedule.next());
  CHECK(schedule.left() == 3);
}

TEST_CASE("places have equal parts of the processors, and none has one of another") {
  const std::vector<int> processors = {0, 1, 2, 3, 8, 9, 10};
  const auto places = tools::places_on(processors, 3);
  REQUIRE(places);
  REQUIRE(places->size() == 3);
  CHECK((*places)[0].processors == std::vector<int>{0, 1});
  CHECK((*places)[1].processors == std::vector<int>{2, 3});
  CHECK((*places)[2].processors == std::vector<int>{8, 9});
  CHECK(tools::to_text((*places)[1]) == "processors 2-3");
  CHECK(tools::settings_of((*places)[0]).empty());
  CHECK(tools::places_on(processors, 7)->back().processors == std::vector<int>{10});
  const auto too_many = tools::places_on(processors, 8);
  REQUIRE_FALSE(too_many);
  CHECK(too_many.error().code == base::errc::invalid_argument);
  CHECK(contains(too_many.error().message, "8 runs side by side on 7 processors"));
  CHECK_FALSE(tools::places_on(processors, 0));
}

TEST_CASE("a place with a GPU gives it to all roles of its run") {
  const auto gpus = tools::parse_gpus("0, 2");
  REQUIRE(gpus);
  const auto places = tools::places_on({0, 1, 2, 4}, *gpus);
  REQUIRE(places);
  CHECK(tools::to_text((*places)[1]) == "processors 2,4, GPU 2");
  CHECK(tools::settings_of((*places)[1]) ==
        std::vector<std::string>{"env.gpus=2", "learner.devices=2", "actors.generator_gpu=2"});
  for (const std::string& setting : tools::settings_of((*places)[1]))
    CHECK(tools::is_placing(setting.substr(0, setting.find('='))));
  CHECK_FALSE(tools::is_placing("learner.steps"));
  for (const char* bad : {"", "a", "0,", "-1", "64", "0,0"})
    CHECK_FALSE(tools::parse_gpus(bad));
  CHECK(contains(tools::parse_gpus("0,x").error().message, "'x' is no GPU"));
}

TEST_CASE("a configuration that names its own place is refused beside others") {
  const auto two = tools::places_on({0, 1, 2, 3}, 2).value();
  const auto gpus = tools::places_on({0, 1, 2, 3}, std::vector<int>{0}).value();
  actors::run_config config;
  CHECK(tools::check_places(two, config));
  CHECK(contains(tools::check_places(gpus, config).error().message,
                 "nothing of this configuration runs on a GPU"));
  config.env.lane = "cuda";
  CHECK(tools::check_places(gpus, config));
  config.env.lane = "cpp";
  config.actors.generator_device = "cuda";
  CHECK(tools::check_places(gpus, config));
  config.env.core = 3;
  CHECK(contains(tools::check_places(two, config).error().message, "env.core is 3"));
  CHECK(tools::check_places({}, config));
  config.env.core = -1;
  config.learner.ranks = 2;
  CHECK(tools::check_places(two, config));
  CHECK(contains(tools::check_places(gpus, config).error().message, "learner.ranks is 2"));
}
