// Protocols as they are carried out: names with baselines, what comes next, and that the same
// device tells each of them another story.
#include <cmath>
#include <functional>

#include "base/clock.hpp"
#include "base/random.hpp"
#include "env/judge/judgement.hpp"
#include "env/judge/timing_session.hpp"
#include "env/measure/measure_name.hpp"
#include "env/measure/round_schedule.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::env;
using test::contains;

namespace {

/// A device whose calls take what it says, a function of the seconds since the beginning.
struct fake_device {
  std::function<double(double)> ref_ns, cand_ns;
  double seconds = 0;
  std::size_t windows = 0;

  /// A window of one side: `calls` times, each of which passes.
  std::vector<double> window(bool candidate, std::size_t calls) {
    std::vector<double> times;
    ++windows;
    for (std::size_t i = 0; i < calls; ++i) {
      times.push_back((candidate ? cand_ns : ref_ns)(seconds));
      seconds += times.back() * 1e-9;
    }
    return times;
  }
};

double mean(const std::vector<double>& times) {
  double sum = 0;
  for (const double t : times)
    sum += t;
  return sum / static_cast<double>(times.size());
}

class device_clock final : public base::clock {
 public:
  explicit device_clock(const fake_device& on) : on_(on) {}
  [[nodiscard]] base::nanoseconds_t now_ns() const override {
    return static_cast<base::nanoseconds_t>(on_.seconds * 1e9);
  }

 private:
  const fake_device& on_;
};

class fake_sides final : public timed_sides, public single_windows {
 public:
  fake_sides(fake_device& on, std::size_t calls) : on_(on), calls_(calls) {}
  finding rehearse() override { return {}; }
  finding pair(std::size_t, bool candidate_first, std::optional<window_pair>& took) override {
    took.emplace();
    for (const bool candidate : {candidate_first, !candidate_first})
      (candidate ? took->cand_ns : took->ref_ns) = mean(on_.window(candidate, calls_));
    return {};
  }
  [[nodiscard]] std::size_t counted_calls() const override { return calls_; }
  [[nodiscard]] bool narrow(std::span<const process_pairs>) const override { return false; }
  single_windows* singly() override { return this; }
  void draw() override {}
  finding window(bool candidate, std::size_t, std::vector<double>& call_ns) override {
    call_ns = on_.window(candidate, calls_);
    return {};
  }
  finding compare() override { return {}; }

 private:
  fake_device& on_;
  std::size_t calls_;
};

process_pairs carry_out(const measure_protocol& protocol, fake_device& on, double budget_s,
                        std::size_t calls = 10) {
  fake_sides sides(on, calls);
  const device_clock clock(on);
  base::random_stream random(1, "order");
  timing_session session(sides, protocol, budget_s, random, clock);
  CHECK(session.run().ok());
  auto& times = session.times();
  if (protocol.order != call_order::reference_first) return times.pairs.front();
  std::vector<double> cands;
  for (std::size_t w = times.warm_ups; w < times.candidate_ns.size(); ++w)
    cands.insert(cands.end(), times.candidate_ns[w].begin(), times.candidate_ns[w].end());
  return round_schedule(protocol, budget_s).rounds(times.reference_ns, cands);
}

judgement judged(const measure_protocol& protocol, const process_pairs& rounds) {
  const std::vector<process_pairs> runs{rounds};
  return judge_rounds(protocol, runs, {});
}

std::string error_of(std::string_view text) {
  const auto name = parse_measure_name(text);
  return name ? "" : name.error().message;
}

fake_device steady(double ref_ns, double cand_ns) {
  return {[=](double) { return ref_ns; }, [=](double) { return cand_ns; }};
}

}  // namespace

TEST_CASE("a name is a protocol and, where it is not the task's, a baseline") {
  CHECK(to_text(measure_name{}) == "paired/1");
  CHECK(parse_measure_name("paired")->protocol == "paired/1");
  CHECK(parse_measure_name("cuda_l1_report@graph") ==
        measure_name{"cuda_l1_report/1", baseline_choice::graph});
  for (const auto& protocol : all_protocols())
    for (const auto baseline : all_baselines()) {
      const measure_name name{std::string(protocol.name), *parse_baseline(baseline)};
      CHECK(parse_measure_name(to_text(name)) == name);
    }
  CHECK(to_text(measure_name{"paired/1", baseline_choice::compile}) == "paired/1@compile");
}

TEST_CASE("unknown names list the known ones") {
  CHECK(contains(error_of("cuda_l1_trian"), "did you mean 'cuda_l1_train/1'"));
  for (const auto& one : all_protocols())
    CHECK(contains(error_of("x"), one.name));
  CHECK(contains(error_of("x"), "cost_model/1"));
  CHECK(contains(error_of("paired/1@grap"), "did you mean 'graph'"));
  CHECK(contains(error_of("paired/1@x"), "task, eager, graph, compile, plain"));
  CHECK(contains(error_of("cost_model/1@graph"), "measures nothing"));
  CHECK_FALSE(error_of("paired/2").empty());
  CHECK_FALSE(error_of("").empty());
}

TEST_CASE("how long: the papers' time unless somebody says another") {
  CHECK(usual_seconds({"cuda_l1_train/1", {}}, 0.5) == 1800);
  CHECK(usual_seconds({"cuda_l1_report/1", baseline_choice::graph}, 0.5) == 1200);
  CHECK(usual_seconds({"paired/1", {}}, 0.5) == 0.5);
  CHECK(usual_seconds({"kernelbench/1", {}}, 0.5) == 0.5);
}

TEST_CASE("by time: until the budget is spent, and something in every bucket at least") {
  auto device = steady(2e6, 1e6);
  // 30 ms a round.
  const auto rounds = carry_out(cuda_l1_train_protocol, device, 3).size();
  CHECK(rounds >= 100);
  CHECK(rounds <= 101);
  device.seconds = 0;
  CHECK(carry_out(cuda_l1_train_protocol, device, 0.001).size() == 7);
  device.seconds = 0;
  CHECK(carry_out(cuda_l1_report_protocol, device, 0.001).size() == 1);
}

TEST_CASE("by runs: 100 of each side whatever the budget, the first left out") {
  auto device = steady(2e6, 1e6);
  const auto rounds = carry_out(kernelbench_protocol, device, 0.001);
  CHECK(rounds.size() >= 100);
  CHECK(judged(kernelbench_protocol, rounds).speedup_e2 == 200);
  // The control: it ends, even where a call takes seconds.
  auto slow = steady(5e9, 5e9);
  const auto few = carry_out(kernelbench_protocol, slow, 0.5);
  CHECK(few.size() < 100);
  CHECK(judged(kernelbench_protocol, few).kind == verdict_kind::noisy);
}

TEST_CASE("a device that slows down is seen by nobody who measures in pairs") {
  // Once the reference had its hundred calls everything takes twice as long.
  const auto slowing = [](double seconds) { return seconds < 0.10405 ? 1e6 : 2e6; };
  const auto e2 = [&](const measure_protocol& protocol) {
    fake_device device{slowing, slowing};
    return judged(protocol, carry_out(protocol, device, 4, 1)).speedup_e2;
  };
  CHECK(e2(cuda_l1_train_protocol) == 100);
  CHECK(e2(cuda_l1_report_protocol) == 100);
  // The reference had the good time: an equal kernel is half as fast.
  CHECK(e2(kernelbench_protocol) == 50);
}

TEST_CASE("one stretch of trouble moves the mean of the rounds and not the median of the buckets") {
  const auto ref = [](double seconds) { return seconds > 1 && seconds < 1.3 ? 5e7 : 1e7; };
  const auto cand = [](double) { return 1e7; };
  const auto under = [&](const measure_protocol& protocol) {
    fake_device device{ref, cand};
    return judged(protocol, carry_out(protocol, device, 10, 1));
  };
  measure_protocol untested = cuda_l1_train_protocol;
  untested.bucket_variance = 0;
  CHECK(under(untested).speedup_e2 == 100);
  CHECK(under(cuda_l1_report_protocol).speedup_e2 > 102);
  CHECK(under(cuda_l1_train_protocol).kind == verdict_kind::noisy);
}

TEST_CASE("rounding: toward 1 in training, to the nearest in the report") {
  auto a = steady(1.118e7, 1e7), b = steady(1.118e7, 1e7);
  CHECK(judged(cuda_l1_train_protocol, carry_out(cuda_l1_train_protocol, a, 3)).speedup_e2 == 111);
  CHECK(judged(cuda_l1_report_protocol, carry_out(cuda_l1_report_protocol, b, 3)).speedup_e2 ==
        112);
}

TEST_CASE("which claims are measured again") {
  const claim_limits suite{3000, 200};
  CHECK(claims_under(paired_protocol, suite).recheck_above_e2 == 3000);
  CHECK(claims_under(cuda_l1_train_protocol, suite).recheck_above_e2 == 300);
  CHECK(claims_under(cuda_l1_train_protocol, suite).best_known_e2 == 200);
  for (const auto& protocol : {cuda_l1_report_protocol, kernelbench_protocol}) {
    CHECK_FALSE(needs_recheck(100'000'000, claims_under(protocol, suite)));
    CHECK_FALSE(looks_twice(protocol));
  }
  for (const auto& protocol : {paired_protocol, cuda_l1_train_protocol}) {
    CHECK(needs_recheck(100'000'000, claims_under(protocol, suite)));
    CHECK(looks_twice(protocol));
  }
  auto device = steady(5e7, 1e6);
  const auto large = judged(kernelbench_protocol, carry_out(kernelbench_protocol, device, 1));
  CHECK(large.speedup_e2 == 5000);
  CHECK(contains(large.detail, "flags and counts"));
}

TEST_CASE("no protocol lets a time pass that no kernel can have") {
  judgement_rules rules;
  rules.floor_ns = 1e6;
  for (const auto& protocol :
       {cuda_l1_train_protocol, cuda_l1_report_protocol, kernelbench_protocol}) {
    auto device = steady(4e6, 0.4e6);
    const std::vector<process_pairs> runs{carry_out(protocol, device, 1)};
    CHECK(judge_rounds(protocol, runs, rules).kind == verdict_kind::hack);
    CHECK(judge_rounds(protocol, runs, {}).kind == verdict_kind::ok);
  }
}

TEST_CASE(
    "a claim of fewer rounds than buckets has its times, and is none that no kernel can have") {
  const std::vector<process_pairs> runs{{{4e6, 0.4e6}, {4e6, 0.5e6}, {4e6, 0.4e6}}};
  const auto j = judged(cuda_l1_report_protocol, runs.front());
  REQUIRE(j.kind == verdict_kind::ok);
  REQUIRE(j.time);
  CHECK(j.time->cand_ns == std::vector<std::int64_t>{400'000, 500'000, 400'000});
  CHECK(j.time->windows == 3);
  CHECK(j.time->log_ratio_e9[0] == to_e9(std::log(8.0)));
  CHECK(j.time->log_ratio_e9[2] == to_e9(std::log(10.0)));
  judgement_rules rules;
  rules.floor_ns = 1e6;
  CHECK(judge_rounds(cuda_l1_report_protocol, runs, rules).kind == verdict_kind::hack);
}

TEST_CASE("times and interval are there for people, around what the protocol says") {
  auto device = steady(3e6, 2e6);
  const auto j = judged(kernelbench_protocol, carry_out(kernelbench_protocol, device, 1));
  REQUIRE(j.time);
  CHECK(j.time->ref_ns.front() == 3'000'000);
  CHECK(j.time->cand_ns.front() == 2'000'000);
  CHECK(std::abs(static_cast<double>(j.time->log_ratio_e9[1]) * 1e-9 - std::log(1.5)) < 1e-6);
  CHECK(j.time->log_ratio_e9[0] <= j.time->log_ratio_e9[1]);
  CHECK(j.time->log_ratio_e9[1] <= j.time->log_ratio_e9[2]);
}
