// Rewards: golden values of every formula, and what gets none.
#include "env/verdict/reward.hpp"

#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "support/test.hpp"

using namespace quern::env;

namespace {

verdict of_kind(verdict_kind kind) {
  verdict result;
  result.kind = kind;
  return result;
}

verdict ok_at(std::int64_t speedup_e2) {
  verdict result = of_kind(verdict_kind::ok);
  result.speedup_e2 = speedup_e2;
  return result;
}

verdict confirmed_at(std::int64_t speedup_e2, bool confirmed) {
  verdict result = ok_at(speedup_e2);
  result.confirmed = confirmed;
  return result;
}

double value_of(std::string_view name, const verdict& what) {
  const auto found = find_reward(name);
  REQUIRE(found.has_value());
  const reward_value value = found->of(what);
  REQUIRE(value.has_value());
  return *value;
}

}  // namespace

TEST_CASE("every formula keeps its golden values") {
  struct row {
    std::string_view name;
    std::int64_t speedup_e2;
    double value;
  };
  // sigmoid/1: 1 / (1 + exp(0.8 - s)), computed by hand to 15 digits.
  const row rows[] = {{"speedup_capped/1", 137, 1.37},
                      {"speedup_capped/1", 300, 3.0},
                      {"speedup_capped/1", 5000, 3.0},
                      {"speedup_capped/1", 0, 0.0},
                      {"speedup_capped/1", 40, 0.4},
                      {"speedup/1", 5000, 50.0},
                      {"speedup/1", 99, 0.99},
                      {"correct/1", 7, 1.0},
                      {"correct_speedup/1", 150, 1.8},
                      {"sigmoid/1", 100, 0.549833997312478},
                      {"sigmoid/1", 80, 0.5},
                      {"sigmoid/1", 300, 0.900249510880315},
                      {"kevin/1", 100, 1.3},
                      {"kevin/1", 5000, 50.3},
                      {"kevin/1", 10, 0.4},
                      {"makora_sigmoid/1", 100, 0.549833997312478},
                      {"makora_sigmoid/1", 80, 0.5},
                      {"makora_sigmoid/1", 180, 0.731058578630005},
                      {"speedup_cuda_l1/1", 111, 1.11},
                      {"speedup_cuda_l1/1", 99, 0.99},
                      {"speedup_cuda_l1/1", 300, 3.0},
                      {"speedup_cuda_l1/1", 301, 3.0}};
  for (const row& one : rows) {
    CAPTURE(one.name);
    CAPTURE(one.speedup_e2);
    CHECK(std::fabs(value_of(one.name, ok_at(one.speedup_e2)) - one.value) < 1e-14);
  }
}

TEST_CASE("speedup_cuda_l1: above 3 only what a second measurement bore out") {
  CHECK(value_of("speedup_cuda_l1/1", confirmed_at(301, true)) == 3.01);
  CHECK(value_of("speedup_cuda_l1/1", confirmed_at(12000, true)) == 120.0);
  CHECK(value_of("speedup_cuda_l1/1", confirmed_at(12000, false)) == 3.0);
  CHECK(value_of("speedup_cuda_l1/1", ok_at(12000)) == 3.0);
  CHECK(value_of("speedup_cuda_l1/1", confirmed_at(250, false)) == 2.5);
  // The others do not ask.
  CHECK(value_of("speedup/1", ok_at(12000)) == 120.0);
}

TEST_CASE("two names of one function") {
  CHECK(find_reward("kevin/1")->name == "correct_speedup/1");
  CHECK(find_reward("makora_sigmoid/1")->name == "sigmoid/1");
  CHECK_FALSE(find_reward("").has_value());
}

TEST_CASE("failures of the candidate are 0, what says nothing about it is no reward") {
  int judged = 0;
  for (int i = 0; i < verdict_kind_count; ++i) {
    const auto kind = static_cast<verdict_kind>(i);
    if (kind == verdict_kind::ok) continue;
    verdict what = of_kind(kind);
    what.speedup_e2 = 500;  // a measurement does not make a failure a success
    for (const reward_function& reward : all_rewards()) {
      CAPTURE(reward.name);
      CAPTURE(name_of(kind));
      const reward_value value = reward.of(what);
      CHECK(value.has_value() == judges_candidate(kind));
      if (value) CHECK(*value == 0.0);
    }
    judged += judges_candidate(kind) ? 1 : 0;
  }
  CHECK(judged == 11);
}

TEST_CASE("a verdict that was only verified has no reward that depends on speed") {
  const verdict verified = of_kind(verdict_kind::ok);
  CHECK(find_reward("correct/1")->of(verified) == 1.0);
  CHECK_FALSE(find_reward("speedup_capped/1")->of(verified).has_value());
}

TEST_CASE("rewards never fall when the speed-up grows") {
  for (const reward_function& reward : all_rewards()) {
    double before = 0;
    for (std::int64_t e2 = 1; e2 < 2000; ++e2) {
      const double value = *reward.of(ok_at(e2));
      REQUIRE(value >= before);
      before = value;
    }
  }
}

TEST_CASE("names are unique, versioned, and unknown ones get a hint") {
  std::set<std::string_view> names;
  for (const reward_function& reward : all_rewards()) {
    CHECK(names.insert(reward.name).second);
    CHECK(reward.name.find('/') != std::string_view::npos);
    CHECK(!reward.formula.empty());
    CHECK(!reward.source.empty());
    if (reward.also.empty()) continue;
    CHECK(names.insert(reward.also).second);
    CHECK(reward.also.find('/') != std::string_view::npos);
  }
  const auto unknown = find_reward("speedup_caped/1");
  REQUIRE_FALSE(unknown.has_value());
  CHECK(unknown.error().message.find("did you mean 'speedup_capped/1'") != std::string::npos);
}

TEST_CASE("rounding goes toward 1 and never past it") {
  CHECK(round_toward_one_e2(1.118) == 111);
  CHECK(round_toward_one_e2(0.992) == 100);
  CHECK(round_toward_one_e2(1.15) == 115);  // 1.15 * 100 is 114.99999999999999 in doubles
  CHECK(round_toward_one_e2(1.0) == 100);
  CHECK(round_toward_one_e2(1.0099) == 100);
  CHECK(round_toward_one_e2(0.5) == 50);
  CHECK(round_toward_one_e2(0.501) == 51);
  CHECK(round_toward_one_e2(0.07) == 7);
  CHECK(round_toward_one_e2(0.0001) == 1);
  CHECK(round_toward_one_e2(12.349) == 1234);
  CHECK(round_toward_one_e2(1e300) == 1'000'000'000);
  for (const double bad : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    CHECK(round_toward_one_e2(bad) == 0);
  }
  for (int i = 1; i < 100000; ++i) {
    const double speedup = i * 1e-4;
    const std::int64_t e2 = round_toward_one_e2(speedup);
    REQUIRE(std::fabs(static_cast<double>(e2) / 100 - 1) <= std::fabs(speedup - 1) + 1e-6);
    REQUIRE(std::fabs(static_cast<double>(e2) / 100 - speedup) < 0.01 + 1e-6);
  }
}

TEST_CASE("a baseline in the name: over that one, or nothing is known") {
  auto over = [](std::string_view baseline) {
    verdict v = ok_at(150);
    v.baseline = baseline_report{std::string(baseline), ""};
    return v;
  };
  const auto graph = find_reward("speedup/1@graph");
  REQUIRE(graph.has_value());
  CHECK(full_name(*graph) == "speedup/1@graph");
  CHECK(graph->of(over("graph")) == 1.5);
  CHECK_FALSE(graph->of(over("eager")).has_value());
  CHECK_FALSE(graph->of(ok_at(150)).has_value());
  // A failure is a failure, whatever it would have been measured against.
  CHECK(graph->of(of_kind(verdict_kind::wrong_value)) == 0.0);
  CHECK_FALSE(graph->of(of_kind(verdict_kind::noisy)).has_value());
  CHECK(find_reward("kevin/1@compile")->of(over("compile")) == 1.8);

  const auto any = find_reward("speedup/1");
  CHECK(full_name(*any) == "speedup/1");
  CHECK(any->of(over("graph")) == 1.5);
  CHECK(any->of(over("eager")) == 1.5);

  const auto unknown = find_reward("speedup/1@garph");
  REQUIRE_FALSE(unknown.has_value());
  CHECK(unknown.error().message.find("did you mean 'graph'") != std::string::npos);
}
