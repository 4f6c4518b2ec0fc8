// What recorded windows of modules on a GPU come to under each protocol: units, what is taken off,
// what is charged. No clock and no process.
#include "env/judge/judgement.hpp"
#include "env/lanes/pytorch/gpu/module_window_times.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::env;

namespace {

constexpr double delivery_ns = 40'000;  // a call
constexpr double wake_ns = 20'000;      // a call
constexpr std::size_t recorded_pairs = 70;

/// A calm pair in which the reference came first.
pair_facts facts_of(const window_margins& of_candidate) {
  pair_facts facts;
  facts.reference = {wake_ns, 1000};
  facts.candidate = of_candidate;
  return facts;
}

/// A measurement in pairs of windows, times of a call with what stands around it. Pairs differ by
/// half a percent to either side.
struct recorded_measurement {
  module_window_times windows;
  process_pairs pairs;

  recorded_measurement(double ref_ns, double cand_ns, double tail_ns = 1000,
                       double woken_ns = wake_ns) {
    for (std::size_t i = 0; i < recorded_pairs; ++i) {
      const double uneven = i % 2 == 0 ? 1.005 : 0.995;
      windows.delivered(delivery_ns);
      windows.pair_took(facts_of({woken_ns, tail_ns}));
      pairs.push_back({ref_ns * uneven + delivery_ns, cand_ns * uneven + delivery_ns});
    }
  }
  [[nodiscard]] process_pairs net(bool charges = true) const { return windows.net(pairs, charges); }
};

/// The same for a protocol that has the reference first, a call a window.
struct recorded_calls {
  module_window_times windows;
  timed_lists times;

  recorded_calls(double ref_ns, double cand_ns, double tail_ns = 1000, double woken_ns = wake_ns) {
    times.warm_ups = kernelbench_protocol.warm_ups;
    const std::size_t counted = kernelbench_protocol.runs + kernelbench_protocol.discarded;
    for (std::size_t i = 0; i < counted; ++i) {
      // What is discarded is ten times as long.
      const double first = i == 0 ? 10 : 1;
      windows.delivered(delivery_ns);
      windows.reference_took({wake_ns, 1000});
      times.reference_ns.push_back(first * ref_ns + delivery_ns);
    }
    for (std::size_t w = 0; w < times.warm_ups + counted; ++w) {
      // Warm-ups count nowhere.
      const double first = w < times.warm_ups ? 50 : w == times.warm_ups ? 10 : 1;
      times.candidate_ns.push_back({first * cand_ns + delivery_ns});
      windows.window_took(w, {woken_ns, tail_ns});
    }
  }
  [[nodiscard]] process_pairs net(bool charges = true) const {
    return windows.net(times, round_schedule(kernelbench_protocol, 1), charges);
  }
};

judgement_rules rules_of_modules() {
  judgement_rules rules;
  rules.null = null_distribution::of_modules_on_gpus();
  return rules;
}

std::int64_t claim(const measure_protocol& protocol, const process_pairs& net) {
  const std::vector<process_pairs> lists{net};
  const judgement j = protocol.statistic == aggregation::paired_log_ratio
                          ? judge_times(lists, rules_of_modules())
                          : judge_rounds(protocol, lists, rules_of_modules());
  CAPTURE(j.detail);
  REQUIRE(j.kind == verdict_kind::ok);
  return j.speedup_e2;
}

/// The claim of a measurement with these times of a call.
std::int64_t claim_of(const measure_protocol& protocol, double ref_ns, double cand_ns) {
  return protocol.order == call_order::reference_first
             ? claim(protocol, recorded_calls(ref_ns, cand_ns).net())
             : claim(protocol, recorded_measurement(ref_ns, cand_ns).net());
}

}  // namespace

TEST_CASE(
    "under every protocol a call against itself is 1.00, and a slower or faster one is told") {
  for (const measure_protocol& protocol : all_protocols()) {
    CAPTURE(protocol.name);
    CHECK(claim_of(protocol, 1e6, 1e6) == 100);
    CHECK(claim_of(protocol, 1e6, 2e6) == 50);
    CHECK(claim_of(protocol, 3e6, 1e6) == 300);
  }
}

TEST_CASE("a time is of one call, less what its delivery takes") {
  const recorded_measurement one(100'000, 50'000);
  const auto net = one.net();
  CHECK(net[0].ref_ns == doctest::Approx(100'500));
  CHECK(net[0].cand_ns == doctest::Approx(50'250));
  CHECK(one.windows.delivery_ns() == delivery_ns);
  for (const measure_protocol& protocol : all_protocols()) {
    CAPTURE(protocol.name);
    CHECK(claim_of(protocol, 1e5, 5e4) == 200);
  }
  // The control: with it left on, twice as fast is no longer twice as fast.
  CHECK(claim(cuda_l1_report_protocol, one.pairs) == 156);
}

TEST_CASE("kernelbench/1 has its runs without warm-ups and without the one that it discards") {
  const auto net = recorded_calls(2e6, 1e6).net();
  REQUIRE(net.size() == kernelbench_protocol.runs);
  for (const window_pair& one : net) {
    CHECK(one.ref_ns == doctest::Approx(2e6));
    CHECK(one.cand_ns == doctest::Approx(1e6));
  }
}

TEST_CASE("what a candidate does behind its answer is charged once a call, and is more than q") {
  constexpr double late = 901'000;
  const recorded_measurement pairs(1e6, 1e5, late);
  const recorded_calls calls(1e6, 1e5, late);
  CHECK(pairs.windows.forgiven_ns() == doctest::Approx(1000));
  for (const measure_protocol& protocol : all_protocols()) {
    CAPTURE(protocol.name);
    const bool alone = protocol.order == call_order::reference_first;
    const std::int64_t charged = claim(protocol, alone ? calls.net() : pairs.net());
    CHECK(charged == 100);
    // The control.
    const std::int64_t uncharged = claim(protocol, alone ? calls.net(false) : pairs.net(false));
    CHECK(uncharged > 900);
  }
}

TEST_CASE("what a candidate does when it is woken is charged, and a short wake earns nothing") {
  for (const measure_protocol& protocol : all_protocols()) {
    CAPTURE(protocol.name);
    const bool alone = protocol.order == call_order::reference_first;
    const auto claimed = [&](double woken_ns, bool charges) {
      return claim(protocol, alone ? recorded_calls(1e6, 1e5, 1000, woken_ns).net(charges)
                                   : recorded_measurement(1e6, 1e5, 1000, woken_ns).net(charges));
    };
    CHECK(claimed(wake_ns + 900'000, true) == 100);
    CHECK(claimed(wake_ns + 900'000, false) > 900);
    CHECK(claimed(0, true) == claimed(wake_ns, true));
  }
}

TEST_CASE("what a candidate leaves behind a delivery is charged to its next window, once") {
  recorded_measurement one(1e6, 1e5);
  one.windows.candidate_delivered(5000);
  one.windows.candidate_delivered(901'000);
  one.windows.candidate_delivered(2000);
  for (int i = 0; i < 2; ++i) {
    one.windows.pair_took(facts_of({wake_ns, 1000}));
    one.pairs.push_back({1e6 + delivery_ns, 1e5 + delivery_ns});
  }
  const process_pairs net = one.net();
  CHECK(net[recorded_pairs].cand_ns == doctest::Approx(1e6));
  CHECK(net[recorded_pairs + 1].cand_ns == doctest::Approx(1e5));
}

TEST_CASE("where few windows of the reference were seen, a candidate is charged by these") {
  // Calls of 50 ms: eight pairs, in one of which the reference came first.
  module_window_times windows;
  process_pairs pairs;
  const auto takes_another = [&](bool candidate_first) {
    pair_facts facts = facts_of({wake_ns + 9e6, 1000 + 8e6});
    facts.candidate_first = candidate_first;
    windows.delivered(delivery_ns);
    windows.pair_took(facts);
    pairs.push_back({50e6, 20e6});
  };
  for (int i = 0; i < 7; ++i)
    takes_another(true);
  CHECK(windows.net(pairs, true)[0].cand_ns == doctest::Approx(20e6 - delivery_ns));
  takes_another(false);
  CHECK(windows.net(pairs, true)[0].cand_ns == doctest::Approx(20e6 - delivery_ns + 17e6));
}

TEST_CASE("pairs and deliveries in one state of the core are taken together") {
  // A shared core makes deliveries half as long again, and calls of the two sides by factors of
  // their own, for the second half of the measurement.
  constexpr double busy = 1.5, busy_ref = 1.6, busy_cand = 1.2;
  const auto measured = [&](bool chooses, std::size_t calm, std::size_t shared) {
    module_window_times windows(chooses);
    process_pairs pairs;
    for (std::size_t i = 0; i < calm + shared; ++i) {
      const bool is_shared = i >= calm;
      windows.delivered(is_shared ? busy * delivery_ns : delivery_ns, is_shared);
      pair_facts facts = facts_of({wake_ns, 1000});
      facts.reference_shared = facts.candidate_shared = is_shared;
      facts.calls = is_shared ? 100 : 2;
      windows.pair_took(facts);
      pairs.push_back(is_shared ? window_pair{busy_ref * 20'000 + busy * delivery_ns,
                                              busy_cand * 40'000 + busy * delivery_ns}
                                : window_pair{20'000 + delivery_ns, 40'000 + delivery_ns});
    }
    CHECK(windows.left_out() == pairs.size() - windows.net(pairs, true).size());
    if (windows.net(pairs, true).size() == calm) CHECK(windows.calls() == 2 * calm);
    return windows.net(pairs, true);
  };
  const auto calm = measured(true, 20, 30);
  REQUIRE(calm.size() == 20);
  CHECK(calm[19].ref_ns == doctest::Approx(20'000));
  CHECK(calm[19].cand_ns == doctest::Approx(40'000));
  const auto shared = measured(true, 10, 30);
  REQUIRE(shared.size() == 30);
  CHECK(shared[0].ref_ns == doctest::Approx(busy_ref * 20'000));
  CHECK(shared[0].cand_ns == doctest::Approx(busy_cand * 40'000));
  CHECK(claim(paired_protocol, calm) == 50);
  CHECK(claim(paired_protocol, shared) == 67);
  // The control: both states together, less the deliveries of both, are uneven.
  const std::vector<process_pairs> all{measured(false, 20, 30)};
  REQUIRE(all.front().size() == 50);
  CHECK(judge_times(all, rules_of_modules()).kind == verdict_kind::noisy);
}

TEST_CASE("few deliveries in the state of the pairs that count are not counted alone") {
  module_window_times windows;
  for (int i = 0; i < 14; ++i)
    windows.pair_took(facts_of({wake_ns, 1000}));
  CHECK_FALSE(windows.has_deliveries());
  for (int i = 0; i < 3; ++i)
    windows.delivered(2 * delivery_ns, true);
  CHECK(windows.deliveries() == 0);
  CHECK(windows.has_deliveries());
  for (int i = 0; i < 2; ++i)
    windows.delivered(delivery_ns);
  CHECK(windows.deliveries() == 2);  // there should be more
  CHECK(windows.delivery_ns() == 2 * delivery_ns);
  windows.delivered(delivery_ns);
  CHECK(windows.deliveries() == 3);
  CHECK(windows.delivery_ns() == delivery_ns);
  CHECK(windows.delivery_spread_ns() == 0);
}

TEST_CASE("a candidate is charged by windows of the reference in the state that counts") {
  // On the shared core the reference's tails are 500 us longer: they forgive nothing on a calm one.
  module_window_times windows;
  process_pairs pairs;
  for (std::size_t i = 0; i < 28; ++i) {
    pair_facts facts = facts_of({wake_ns, 400'000});
    facts.reference_shared = facts.candidate_shared = i % 2 == 1;
    if (facts.reference_shared) facts.reference.tail_ns = 501'000;
    windows.pair_took(facts);
    pairs.push_back({2e5, 1e5});
  }
  const auto net = windows.net(pairs, true);
  REQUIRE(net.size() == 14);
  CHECK(net[0].cand_ns == doctest::Approx(1e5 + 399'000));
  CHECK(windows.forgiven_ns() == doctest::Approx(1000));
}

TEST_CASE("a time below the floor by no more than deliveries vary convicts nobody") {
  // A call of 1 us where the least traffic takes 3 us, and 40 us are taken off it.
  recorded_measurement one(1000, 1000);
  judgement_rules rules = rules_of_modules();
  rules.floor_ns = 3000;
  const auto judged = [&] {
    rules.time_error_ns = one.windows.delivery_spread_ns();
    const process_pairs net = one.net();
    return judge_times({&net, 1}, rules);
  };
  // The control: deliveries that are all the same leave no doubt.
  CHECK(one.windows.delivery_spread_ns() == 0);
  CHECK(judged().kind == verdict_kind::hack);
  one.windows.delivered(delivery_ns + 400);
  CHECK(judged().kind == verdict_kind::hack);
  one.windows.delivered(delivery_ns - 600);
  CHECK(one.windows.delivery_spread_ns() == 1000);
  CHECK(judged().kind == verdict_kind::noisy);
  CHECK(test::contains(judged().detail, "varied by 1000 ns"));
}

TEST_CASE("how much deliveries deviate is told by their quartiles") {
  module_window_times windows;
  CHECK(windows.delivery_deviation_ns() == 0);
  windows.delivered(delivery_ns);
  CHECK(windows.delivery_deviation_ns() == 0);
  windows.delivered(delivery_ns + 4000);
  CHECK(windows.delivery_deviation_ns() == doctest::Approx(2000 / 1.349));
  for (int i = 0; i < 3; ++i)
    windows.delivered(delivery_ns);
  CHECK(windows.delivery_deviation_ns() == 0);
  CHECK(windows.deliveries() == 5);
  CHECK(windows.delivery_ns() == delivery_ns);
}

TEST_CASE("a fast module is hidden by deliveries that deviate as much as its calls take") {
  // Two pairs a bucket, of calls of 24 and 3 ms, on a host that takes a core away for 10 ms at a
  // time: of some deliveries, and of some windows.
  recorded_measurement one(24e6, 3e6);
  one.pairs.resize(2 * bucket_count);
  for (std::size_t i = 0; i < one.pairs.size(); i += 4)
    one.pairs[i].cand_ns += 10e6;
  module_window_times uneven;
  for (int i = 0; i < 8; ++i)
    uneven.delivered(i % 3 == 0 ? 10e6 : delivery_ns);
  CHECK(uneven.is_hidden(one.pairs));
  // The same deliveries hide no call of 30 ms, and no call of 3 ms in windows enough.
  process_pairs longer = one.pairs, more;
  for (window_pair& pair : longer)
    pair.cand_ns *= 10;
  CHECK_FALSE(uneven.is_hidden(longer));
  for (int i = 0; i < 100; ++i)
    more.insert(more.end(), one.pairs.begin(), one.pairs.end());
  CHECK_FALSE(uneven.is_hidden(more));
  // Nor do even ones.
  module_window_times even;
  for (int i = 0; i < 8; ++i)
    even.delivered(delivery_ns);
  CHECK_FALSE(even.is_hidden(one.pairs));
}

TEST_CASE("what is hidden is known of the latest measurements") {
  hidden_measurements all;
  CHECK_FALSE(all.among_last(3));
  all.add(true);
  CHECK(all.among_last(1));
  CHECK(all.among_last(5));  // pooled with what another evaluation measured
  all.add(false);
  // One that is measured again is judged by itself; with a second, wide one both count.
  CHECK_FALSE(all.among_last(1));
  CHECK(all.among_last(2));
}

TEST_CASE("a measurement that leaves nothing of the reference's calls says nothing") {
  CHECK_FALSE(module_window_times::is_nothing_left(recorded_measurement(2000, 10).net()));
  CHECK(module_window_times::is_nothing_left(recorded_measurement(100, 5000).net()));
  CHECK_FALSE(module_window_times::is_nothing_left({}));
}

TEST_CASE("what was recorded before a measurement does not count, nor does less than nothing") {
  recorded_measurement one(1e5, 1e5);
  one.windows.forget();
  CHECK(one.windows.delivery_ns() == 0);
  CHECK(one.windows.deliveries() == 0);
  one.windows.delivered(1e9);
  for (const window_pair& pair : one.windows.net({{1e5, 2e5}}, true)) {
    CHECK(pair.ref_ns == 500);
    CHECK(pair.cand_ns == 500);
  }
}

TEST_CASE("an even measurement goes on until it is precise, for a while") {
  ratio_estimate e;
  e.window_half_width = 0.04;
  CHECK_FALSE(is_enough(e, 1));
  CHECK_FALSE(is_enough(e, 2.4));
  CHECK(is_enough(e, 2.5));
  e.window_half_width = 0.03;
  CHECK(is_enough(e, 1));
  e.noisy = true;
  CHECK_FALSE(is_enough(e, 3.9));
}
