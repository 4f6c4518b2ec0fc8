// What is done with measurements, with measuring faked: what is measured again, what is pooled,
// what a large claim counts for; and what lists of several runners and uneven candidates change.
#include <cmath>
#include <map>
#include <numeric>

#include "env/judge/claim.hpp"
#include "env/judge/judgement.hpp"
#include "support/test.hpp"

using namespace quern::env;

namespace {

/// What each measurement would give, by its number; the lists carry it as one pair.
struct fake_device {
  std::map<std::uint64_t, double> speedup;
  bool wide_alone = false;   ///< one list is wide, two are not
  bool hack = false;         ///< whatever is judged
  double noisy_above = 1e9;  ///< lists whose mean is beyond are noisy
  double hack_above = 1e9;   ///< ... are beyond belief
  [[nodiscard]] judgement judge(std::span<const process_pairs> lists) const {
    double sum = 0;
    for (const auto& list : lists)
      sum += list[0].ref_ns / list[0].cand_ns;
    const double mean = sum / static_cast<double>(lists.size());
    judgement j;
    j.wide = wide_alone && lists.size() == 1;
    if (hack || mean > hack_above) {
      j.kind = verdict_kind::hack;
      j.reason = "impossible";
      return j;
    }
    if (mean > noisy_above) {
      j.detail = "uneven";
      return j;
    }
    j.kind = verdict_kind::ok;
    j.speedup_e2 = std::llround(100 * mean);
    j.time.emplace();
    return j;
  }
};

fake_device faked(std::map<std::uint64_t, double> speedup) {
  fake_device device;
  device.speedup = std::move(speedup);
  return device;
}

struct settled {
  verdict v;
  std::vector<process_pairs> runs;
  std::optional<std::int64_t> claim_e2;
  std::vector<std::uint64_t> measured;
};

settled settle_with(fake_device device, measuring how = {}, settled start = {}) {
  how.measure = [&](std::uint64_t round, std::vector<process_pairs>& into) {
    start.measured.push_back(round);
    const auto found = device.speedup.find(round);
    if (found == device.speedup.end()) return false;
    into.push_back({{1000 * found->second, 1000}});
    return true;
  };
  how.judge = [&](std::span<const process_pairs> lists) { return device.judge(lists); };
  start.v.kind = verdict_kind::wrong_value;
  measure_and_settle(how, start.runs, start.claim_e2, start.v);
  return start;
}

using rounds = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("a small claim is measured once and stands") {
  const auto s = settle_with(faked({{0, 1.5}}));
  CHECK(s.measured == rounds{0});
  CHECK(s.v.kind == verdict_kind::ok);
  CHECK(s.v.speedup_e2 == 150);
  CHECK(s.v.confirmed == true);
  CHECK(s.v.time.has_value());
  CHECK(s.runs.size() == 1);
  CHECK_FALSE(s.claim_e2.has_value());
}

TEST_CASE("a failed measurement leaves the verdict as measuring set it") {
  const auto s = settle_with(faked({}));
  CHECK(s.v.kind == verdict_kind::wrong_value);
  CHECK(s.runs.empty());
  CHECK_FALSE(s.v.speedup_e2.has_value());
}

TEST_CASE("a wide measurement is repeated and both count, unless it is beyond belief") {
  fake_device device = faked({{0, 1.5}, {2, 1.7}});
  device.wide_alone = true;
  const auto s = settle_with(device);
  CHECK(s.measured == rounds{0, 2});
  CHECK(s.v.speedup_e2 == 160);
  CHECK(s.runs.size() == 2);

  device.hack = true;
  const auto caught = settle_with(device);
  CHECK(caught.measured == rounds{0});
  CHECK(caught.v.kind == verdict_kind::hack);
  CHECK(caught.v.reason == "impossible");
  CHECK_FALSE(caught.v.speedup_e2.has_value());

  device.hack = false;
  device.speedup.erase(2);
  CHECK(settle_with(device).v.kind == verdict_kind::wrong_value);
}

TEST_CASE("noise is no speed-up, but its windows are kept") {
  fake_device device = faked({{0, 1.5}});
  device.noisy_above = 1;
  const auto s = settle_with(device);
  CHECK(s.v.kind == verdict_kind::noisy);
  CHECK(s.v.detail == "uneven");
  CHECK_FALSE(s.v.speedup_e2.has_value());
  CHECK(s.runs.size() == 1);
}

TEST_CASE("a large claim is capped and remembered as it was measured") {
  const auto s = settle_with(faked({{0, 40}}));
  CHECK(s.measured == rounds{0});
  CHECK(s.v.kind == verdict_kind::ok);
  CHECK(s.v.speedup_e2 == 3000);
  CHECK(s.v.confirmed == false);
  CHECK(s.claim_e2 == 4000);

  // Twice the best that is known is large, too.
  measuring how;
  how.claims.best_known_e2 = 200;
  const auto beyond = settle_with(faked({{0, 5}}), how);
  CHECK(beyond.v.speedup_e2 == 400);
  CHECK(beyond.v.confirmed == false);
  CHECK(beyond.claim_e2 == 500);
}

TEST_CASE("a large claim that is confirmed at once counts for the lower of both") {
  measuring how;
  how.confirm_at_once = true;
  const auto s = settle_with(faked({{0, 40}, {3, 38}}), how);
  CHECK(s.measured == rounds{0, 3});
  CHECK(s.v.kind == verdict_kind::ok);
  CHECK(s.v.speedup_e2 == 3800);
  CHECK(s.v.confirmed == true);
  CHECK(s.runs.size() == 2);

  const auto higher = settle_with(faked({{0, 40}, {3, 42}}), how);
  CHECK(higher.v.speedup_e2 == 4000);
  CHECK(higher.v.confirmed == true);

  const auto apart = settle_with(faked({{0, 40}, {3, 20}}), how);
  CHECK(apart.v.kind == verdict_kind::unconfirmed);
  CHECK(apart.v.confirmed == false);
  CHECK_FALSE(apart.v.speedup_e2.has_value());

  // A second measurement that says nothing leaves the claim to be borne out later.
  fake_device device = faked({{0, 40}, {3, 50}});
  device.noisy_above = 45;
  const auto open = settle_with(device, how);
  CHECK(open.v.speedup_e2 == 3000);
  CHECK(open.v.confirmed == false);
  CHECK(open.claim_e2 == 4000);
  CHECK(open.runs.size() == 1);

  // Only large ones cost a second measurement.
  CHECK(settle_with(faked({{0, 2}}), how).measured == rounds{0});
}

TEST_CASE("where two measurements of a large claim are somewhat apart, a third decides") {
  measuring how;
  how.confirm_at_once = true;
  // Memory lay badly once: the lowest counts.
  const auto uneven = settle_with(faked({{0, 40}, {3, 35}, {4, 36}}), how);
  CHECK(uneven.measured == rounds{0, 3, 4});
  CHECK(uneven.v.kind == verdict_kind::ok);
  CHECK(uneven.v.speedup_e2 == 3500);
  CHECK(uneven.v.confirmed == true);
  CHECK(uneven.runs.size() == 3);

  // The second was the slow one, and the third says what the first said.
  const auto slow_once = settle_with(faked({{0, 40}, {3, 35}, {4, 39}}), how);
  CHECK(slow_once.measured == rounds{0, 3, 4});
  CHECK(slow_once.v.kind == verdict_kind::ok);
  CHECK(slow_once.v.speedup_e2 == 3500);
  CHECK(slow_once.v.confirmed == true);

  const auto falling = settle_with(faked({{0, 40}, {3, 35}, {4, 30}}), how);
  CHECK(falling.v.kind == verdict_kind::unconfirmed);
  CHECK(falling.v.detail == "measured 40.00x, then 35.00x, then 30.00x in fresh processes");

  // No third one helps a claim that was twice as large as what follows.
  CHECK(settle_with(faked({{0, 40}, {3, 20}, {4, 20}}), how).measured == rounds{0, 3});

  // A third that says nothing leaves it at two.
  fake_device device = faked({{0, 40}, {3, 35}, {4, 50}});
  device.noisy_above = 45;
  CHECK(settle_with(device, how).v.kind == verdict_kind::unconfirmed);
}

TEST_CASE("a claim that is beyond belief when it is measured again is a hack") {
  measuring how;
  how.confirm_at_once = true;
  fake_device device = faked({{0, 40}, {3, 50}});
  device.hack_above = 45;
  const auto second = settle_with(device, how);
  CHECK(second.measured == rounds{0, 3});
  CHECK(second.v.kind == verdict_kind::hack);
  CHECK(second.v.reason == "impossible");
  CHECK_FALSE(second.v.speedup_e2.has_value());
  CHECK_FALSE(second.claim_e2.has_value());

  device = faked({{0, 40}, {3, 35}, {4, 50}});
  device.hack_above = 45;
  const auto third = settle_with(device, how);
  CHECK(third.measured == rounds{0, 3, 4});
  CHECK(third.v.kind == verdict_kind::hack);
  CHECK_FALSE(third.v.speedup_e2.has_value());

  measuring recheck;
  recheck.recheck = true;
  settled before;
  before.claim_e2 = 4000;
  device = faked({{1, 35}, {4, 50}});
  device.hack_above = 45;
  const auto rechecked = settle_with(device, recheck, before);
  CHECK(rechecked.measured == rounds{1, 4});
  CHECK(rechecked.v.kind == verdict_kind::hack);
}

TEST_CASE("a recheck is measured under its own number and decides the remembered claim") {
  measuring how;
  how.recheck = true;
  settled before;
  before.claim_e2 = 4000;
  before.runs = {{{40'000, 1000}}};
  const auto borne_out = settle_with(faked({{1, 39}}), how, before);
  CHECK(borne_out.measured == rounds{1});
  CHECK(borne_out.v.speedup_e2 == 3900);
  CHECK(borne_out.v.confirmed == true);
  CHECK(borne_out.runs.size() == 2);

  // Somewhat apart: a third decides here, too.
  const auto decided = settle_with(faked({{1, 35}, {4, 36}}), how, before);
  CHECK(decided.measured == rounds{1, 4});
  CHECK(decided.v.speedup_e2 == 3500);
  CHECK(decided.v.confirmed == true);

  const auto refuted = settle_with(faked({{1, 1.5}}), how, before);
  CHECK(refuted.v.kind == verdict_kind::unconfirmed);
  CHECK_FALSE(refuted.v.speedup_e2.has_value());

  // Nothing remembered: a large claim is settled by two fresh measurements.
  const auto afresh = settle_with(faked({{1, 40}, {3, 40}}), how);
  CHECK(afresh.measured == rounds{1, 3});
  CHECK(afresh.v.speedup_e2 == 4000);
  CHECK(afresh.v.confirmed == true);
}

TEST_CASE("small claims of one source are pooled with what was measured before") {
  settled before;
  before.runs = {{{1000, 1000}}};
  const auto pooled = settle_with(faked({{0, 2}}), {}, before);
  CHECK(pooled.v.speedup_e2 == 150);
  CHECK(pooled.runs.size() == 2);

  // Where all together are noise, the fresh ones count alone.
  before.runs = {{{4000, 1000}}};
  fake_device device = faked({{0, 2}});
  device.noisy_above = 2.5;
  CHECK(settle_with(device, {}, before).v.speedup_e2 == 200);

  // A large claim is not diluted.
  before.runs = {{{1000, 1000}}};
  CHECK(settle_with(faked({{0, 40}}), {}, before).claim_e2 == 4000);
}

namespace {

/// Window pairs without jitter; `uneven`: shares by which every other bucket is slower.
process_pairs exact_pairs(double log_ratio, double cand_uneven = 0, double ref_uneven = 0) {
  process_pairs pairs;
  for (std::size_t i = 0; i < 8 * bucket_count; ++i) {
    const double slow = i / 8 % 2 == 0 ? 0 : 1;
    pairs.push_back(
        {2e5 * (1 + slow * ref_uneven), 2e5 * std::exp(-log_ratio) * (1 + slow * cand_uneven)});
  }
  return pairs;
}

judgement_rules rules_with_null(double p99) {
  judgement_rules rules;
  rules.null = null_distribution::make({{2e5, p99}}).value();
  return rules;
}

}  // namespace

TEST_CASE("lists of one measurement do not shrink the noise of a measurement") {
  auto rules = rules_with_null(0.03);
  const std::vector<process_pairs> one{exact_pairs(0.02)}, three(3, exact_pairs(0.02)),
      nine(9, exact_pairs(0.02));
  // 2 % are less than what one measurement of a kernel against itself may show ...
  CHECK(judge_times(one, rules).speedup_e2 == 100);
  // ... more than what the mean of three shows ...
  CHECK(judge_times(three, rules).speedup_e2 == 102);
  // ... and three lists that belong to one measurement are one.
  rules.lists_per_measurement = 3;
  CHECK(judge_times(three, rules).speedup_e2 == 100);
  CHECK(judge_times(nine, rules).speedup_e2 == 102);
  // None is taken for one.
  rules.lists_per_measurement = 0;
  CHECK(judge_times(one, rules).speedup_e2 == 100);
}

TEST_CASE("an uneven candidate is charged its slow end, where it is asked for and its fault") {
  auto rules = rules_with_null(0.001);
  const std::vector<process_pairs> uneven{exact_pairs(std::log(2), 0.3)},
      both{exact_pairs(std::log(2), 0.3, 0.3)}, machine{exact_pairs(std::log(2), 0, 0.3)},
      even{exact_pairs(std::log(2))};
  CHECK(judge_times(uneven, rules).kind == verdict_kind::noisy);
  rules.charge_noise = true;
  const auto charged = judge_times(uneven, rules);
  CHECK(charged.kind == verdict_kind::ok);
  CHECK(charged.speedup_e2 < 180);
  CHECK(charged.speedup_e2 > 100);
  CHECK(quern::test::contains(charged.detail, "the slow end"));
  // A baseline that is uneven itself says that the machine is: no verdict.
  CHECK(judge_times(machine, rules).kind == verdict_kind::noisy);
  // Both alike cancel, and what is even pays nothing.
  CHECK(judge_times(both, rules).kind == verdict_kind::ok);
  CHECK(judge_times(both, rules).speedup_e2 == 200);
  CHECK(judge_times(even, rules).speedup_e2 == 200);
}

TEST_CASE("a call that is hidden by what is taken off it claims nothing and is charged nothing") {
  auto rules = rules_with_null(0.001);
  rules.charge_noise = true;
  const std::vector<process_pairs> uneven{exact_pairs(std::log(2), 0.3)},
      even{exact_pairs(std::log(2))};
  for (const auto& lists : {uneven, even}) {
    rules.is_hidden = false;
    CHECK(judge_times(lists, rules).kind == verdict_kind::ok);
    rules.is_hidden = true;
    const judgement j = judge_times(lists, rules);
    CHECK(j.kind == verdict_kind::noisy);
    CHECK(quern::test::contains(j.detail, "too short to be told beside what is taken off it"));
    CHECK(j.time);
  }
  // A time that no kernel can have stays one.
  rules.floor_ns = 1e12;
  CHECK(judge_times(even, rules).kind == verdict_kind::hack);
}
