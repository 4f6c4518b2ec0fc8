// Order and number of windows, with the sides and the clock faked.
#include "env/judge/timing_session.hpp"

#include <array>
#include <cmath>
#include <functional>

#include "support/test.hpp"

using namespace quern;
using namespace quern::env;

namespace {

/// Two sides whose windows take what a test says, and that write down what they were asked.
class fake_sides final : public timed_sides, public single_windows {
 public:
  struct asked {
    std::size_t list;
    bool candidate_first;
  };

  explicit fake_sides(base::manual_clock& clock) : clock_(clock) {}

  finding rehearse() override {
    clock_.advance(static_cast<base::nanoseconds_t>(rehearsal_s * 1e9));
    return rehearsed;
  }
  void begin() override { ++begun; }
  std::size_t lists() const override { return runners; }
  finding between() override {
    betweens.push_back(pairs.size());
    return fails_between == pairs.size() ? failure() : finding{};
  }
  finding pair(std::size_t list, bool candidate_first, std::optional<window_pair>& took) override {
    CHECK_FALSE(took.has_value());
    if (fails_at == pairs.size()) return failure();
    pairs.push_back({list, candidate_first});
    clock_.advance(static_cast<base::nanoseconds_t>(pair_s * 1e9));
    if (!left_out || !left_out(pairs.size())) took = window_pair{200, took_ns};
    return {};
  }
  std::size_t coming_state() override { return coming ? coming(pairs.size()) : 0; }
  std::size_t last_state() const override { return measured ? measured(pairs.size() - 1) : 0; }
  std::size_t counted_calls() const override { return calls; }
  bool narrow(std::span<const process_pairs> of) const override {
    for (const auto& list : of)
      CHECK(list.size() >= bucket_count);
    ++asked_narrow;
    return narrow_after != 0 && pairs.size() >= narrow_after;
  }
  bool even(std::span<const process_pairs> of, double budgets) const override {
    for (const auto& list : of)
      CHECK(list.size() >= bucket_count);
    ++asked_even;
    return pairs.size() >= even_after && budgets >= even_from_budgets;
  }
  single_windows* singly() override { return pairs_alone ? nullptr : this; }

  void draw() override { ++drawn; }
  finding window(bool candidate, std::size_t content, std::vector<double>& call_ns) override {
    CHECK(content < drawn);
    log += fmt::format("{}{} ", candidate ? 'c' : 'r', content);
    const double took_s = candidate && candidate_s > 0 ? candidate_s : pair_s;
    clock_.advance(static_cast<base::nanoseconds_t>(took_s * 1e9));
    call_ns.assign(calls, (candidate ? 1000.0 : 2000.0) + static_cast<double>(content));
    return {};
  }
  finding compare() override {
    log += "= ";
    return std::ranges::count(log, '=') == wrong_at ? failure() : finding{};
  }

  static finding failure() { return {verdict_kind::runtime_error, "", "as asked", std::nullopt}; }

  double rehearsal_s = 0, pair_s = 0.01, even_from_budgets = 0;
  double candidate_s = 0;  ///< a window of the candidate alone; 0: as long as one of the reference
  finding rehearsed;
  double took_ns = 100;  ///< a call of the candidate; of the reference 200
  std::size_t runners = 1, calls = 10, narrow_after = 0, even_after = 0;
  std::size_t fails_at = SIZE_MAX, fails_between = SIZE_MAX;
  std::ptrdiff_t wrong_at = -1;
  bool pairs_alone = false;
  std::function<bool(std::size_t)> left_out;
  std::function<std::size_t(std::size_t)> coming, measured;  ///< states; null: one alone

  std::vector<asked> pairs;
  std::vector<std::size_t> betweens;
  std::size_t drawn = 0;
  int begun = 0;
  mutable int asked_narrow = 0, asked_even = 0;
  std::string log;

 private:
  base::manual_clock& clock_;
};

struct measured {
  finding outcome;
  timed_lists times;
  double seconds = 0;
};

measured measure(base::manual_clock& clock, fake_sides& sides,
                 const measure_protocol& protocol = paired_protocol, double budget_s = 0.2,
                 std::uint64_t seed = 1) {
  base::random_stream order(seed, "order");
  timing_session session(sides, protocol, budget_s, order, clock);
  measured result;
  result.outcome = session.run();
  result.times = std::move(session.times());
  result.seconds = session.seconds();
  return result;
}

}  // namespace

TEST_CASE("who is asked whether pairs are even hears how many budgets have passed") {
  base::manual_clock clock;
  fake_sides sides(clock);
  sides.even_from_budgets = 2.5;
  const auto m = measure(clock, sides);
  REQUIRE(m.outcome.ok());
  CHECK(m.seconds >= 2.5 * 0.2);
  CHECK(m.seconds < 3 * 0.2);
}

TEST_CASE("lists take turns, and of two pairs in a row of one list each side is first once") {
  int firsts = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    base::manual_clock clock;
    fake_sides sides(clock);
    sides.runners = 1 + seed % 4;
    const auto m = measure(clock, sides, paired_protocol, 0.5, seed);
    REQUIRE(m.outcome.ok());
    std::vector<std::vector<bool>> by_list(sides.runners);
    for (std::size_t i = 0; i < sides.pairs.size(); ++i) {
      CHECK(sides.pairs[i].list == i % sides.runners);
      by_list[sides.pairs[i].list].push_back(sides.pairs[i].candidate_first);
    }
    for (const auto& list : by_list)
      for (std::size_t i = 0; i + 1 < list.size(); i += 2)
        CHECK(list[i] != list[i + 1]);
    firsts += by_list[0][0] ? 1 : 0;
  }
  // Nobody knows which side begins.
  CHECK(firsts > 70);
  CHECK(firsts < 130);
}

TEST_CASE(
    "it ends when the interval is narrow, but not before each bucket of each list has a pair") {
  base::manual_clock clock;
  fake_sides sides(clock);
  sides.runners = 3;
  sides.narrow_after = 1;
  auto m = measure(clock, sides, paired_protocol, 100);
  CHECK(m.outcome.ok());
  for (const auto& list : m.times.pairs)
    CHECK(list.size() == bucket_count);
  CHECK(sides.asked_narrow == 1);

  fake_sides later(clock);
  later.narrow_after = 20;
  m = measure(clock, later, paired_protocol, 100);
  CHECK(m.times.pairs.front().size() == 20);
  CHECK(m.times.pairs.front().front().ref_ns == 200);
}

TEST_CASE("it ends with its budget, of which rehearsing is a part") {
  base::manual_clock clock;
  fake_sides sides(clock);
  sides.rehearsal_s = 0.1;
  const auto m = measure(clock, sides);
  CHECK(m.times.pairs.front().size() == 10);
  CHECK(std::abs(m.seconds - 0.2) < 1e-6);
}

TEST_CASE("a measurement that is noisy when its budget is over goes on, four budgets at most") {
  base::manual_clock clock;
  fake_sides never(clock);
  never.even_after = SIZE_MAX;
  auto m = measure(clock, never);
  CHECK(m.outcome.ok());
  CHECK(std::abs(m.seconds - most_budgets * 0.2) < 1e-6);
  CHECK(m.times.pairs.front().size() == 80);
  // Twice a budget, from the end of the first on: more looks would be more chances.
  CHECK(never.asked_even == 6);

  // It ends at the first look at which it is even.
  fake_sides late(clock);
  late.even_after = 31;
  m = measure(clock, late);
  CHECK(m.times.pairs.front().size() == 40);
  // The control: one that is even when the budget is over is asked once.
  fake_sides at_once(clock);
  m = measure(clock, at_once);
  CHECK(m.times.pairs.front().size() == 20);
  CHECK(at_once.asked_even == 1);
  // One that becomes narrow is not asked any more.
  fake_sides narrow(clock);
  narrow.even_after = SIZE_MAX;
  narrow.narrow_after = 25;
  m = measure(clock, narrow);
  CHECK(m.times.pairs.front().size() == 25);
  CHECK(narrow.asked_even == 1);
}

TEST_CASE("a budget that is over still has a pair for each bucket, within reason") {
  base::manual_clock clock;
  fake_sides sides(clock);
  sides.pair_s = 0.3;
  CHECK(measure(clock, sides).times.pairs.front().size() == bucket_count);
  // 4 x 0.2 + 2 s are too few for seven.
  fake_sides slow(clock);
  slow.pair_s = 1;
  const auto m = measure(clock, slow);
  CHECK(m.outcome.ok());
  CHECK(m.times.pairs.front().size() == 3);
}

TEST_CASE("pairs that somebody else disturbed are left out and made up for") {
  base::manual_clock clock;
  fake_sides sides(clock);
  sides.pair_s = 0.1;
  sides.left_out = [](std::size_t n) { return n % 2 == 0; };
  const auto m = measure(clock, sides);
  CHECK(m.times.pairs.front().size() == bucket_count);
  CHECK(sides.pairs.size() == 2 * bucket_count - 1);

  fake_sides never(clock);
  never.pair_s = 0.1;
  never.left_out = [](std::size_t) { return true; };
  const auto none = measure(clock, never);
  CHECK(none.outcome.ok());
  CHECK(none.times.pairs.front().empty());
  CHECK(never.pairs.size() == 28);  // 2.8 s
}

TEST_CASE("of two pairs in a row that count each side is first once, whatever is left out") {
  int alike = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    base::manual_clock clock;
    fake_sides sides(clock);
    base::random_stream chance(seed, "pairs that are left out");
    std::vector<bool> counts;
    sides.left_out = [&](std::size_t) {
      counts.push_back(!chance.chance(0.4));
      return !counts.back();
    };
    REQUIRE(measure(clock, sides, paired_protocol, 0.5, seed).outcome.ok());
    std::vector<bool> counted;
    for (std::size_t i = 0; i < counts.size(); ++i)
      if (counts[i]) counted.push_back(sides.pairs[i].candidate_first);
    for (std::size_t i = 0; i + 1 < counted.size(); i += 2)
      CHECK(counted[i] != counted[i + 1]);
    // Control: by their places in time, half of them would be alike.
    for (std::size_t i = 0; i + 1 < sides.pairs.size(); i += 2)
      alike += sides.pairs[i].candidate_first == sides.pairs[i + 1].candidate_first ? 1 : 0;
  }
  CHECK(alike > 0);
}

TEST_CASE("each side is first as often as the other in each state of pairs") {
  for (const bool changes_unseen : {false, true}) {
    CAPTURE(changes_unseen);
    base::manual_clock clock;
    fake_sides sides(clock);
    sides.narrow_after = 120;
    // Alternating pairs, then stretches of nine. The state of one in seven is another than it
    // seemed.
    sides.coming = [](std::size_t pair) { return pair < 40 ? pair % 2 : pair / 9 % 2; };
    sides.measured = [&](std::size_t pair) {
      return changes_unseen && pair % 7 == 3 ? std::size_t{2} : sides.coming(pair);
    };
    base::random_stream order(5, "orders in states");
    timing_session session(sides, paired_protocol, 10, order, clock);
    REQUIRE(session.run().ok());
    std::array<int, timed_sides::pair_states> lead{};
    for (std::size_t i = 0; i < sides.pairs.size(); ++i)
      lead[sides.measured(i)] += sides.pairs[i].candidate_first ? 1 : -1;
    CHECK(std::abs(lead[0]) <= 2);
    CHECK(std::abs(lead[1]) <= 2);
  }
}

TEST_CASE("a state that goes with the order does not keep that order") {
  base::manual_clock clock;
  fake_sides sides(clock);
  sides.narrow_after = 120;
  sides.measured = [&](std::size_t pair) {
    return sides.pairs[pair].candidate_first ? std::size_t{2} : std::size_t{0};
  };
  base::random_stream order(6, "orders that make states");
  timing_session session(sides, paired_protocol, 10, order, clock);
  REQUIRE(session.run().ok());
  const auto first = std::ranges::count_if(sides.pairs, &fake_sides::asked::candidate_first);
  CHECK(std::abs(2 * first - std::ssize(sides.pairs)) <= 2);
}

TEST_CASE("a finding ends it, wherever it is made, and what was measured stays") {
  base::manual_clock clock;
  fake_sides rehearsal(clock);
  rehearsal.rehearsed = fake_sides::failure();
  CHECK(measure(clock, rehearsal).outcome.detail == "as asked");
  CHECK(rehearsal.pairs.empty());
  CHECK(rehearsal.begun == 0);

  fake_sides pair(clock);
  pair.fails_at = 4;
  auto m = measure(clock, pair);
  CHECK(m.outcome.kind == verdict_kind::runtime_error);
  CHECK(m.times.pairs.front().size() == 4);

  fake_sides between(clock);
  between.fails_between = 3;
  m = measure(clock, between);
  CHECK(m.outcome.kind == verdict_kind::runtime_error);
  CHECK(m.times.pairs.front().size() == 3);
  CHECK(between.betweens == std::vector<std::size_t>{0, 1, 2, 3});
}

TEST_CASE("in random pairs warm-ups are counted in calls and not recorded") {
  base::manual_clock clock;
  fake_sides sides(clock);
  sides.calls = 2;
  auto protocol = cuda_l1_train_protocol;  // three warm-ups
  auto m = measure(clock, sides, protocol, 0.2);
  CHECK(m.outcome.ok());
  CHECK(sides.pairs.size() == m.times.pairs.front().size() + 2);
  CHECK(m.times.pairs.front().size() == 18);
  CHECK(sides.begun == 2);
  CHECK(sides.betweens.empty());
  CHECK(sides.asked_narrow == 0);

  fake_sides failing(clock);
  failing.fails_at = 1;
  m = measure(clock, failing, protocol);
  CHECK_FALSE(m.outcome.ok());
}

TEST_CASE("a protocol by rounds does not wait for ever for pairs that are all left out") {
  base::manual_clock clock;
  fake_sides sides(clock);
  sides.pair_s = 0.1;
  sides.left_out = [](std::size_t) { return true; };
  auto m = measure(clock, sides, cuda_l1_train_protocol, 0.2);
  CHECK(m.outcome.ok());
  CHECK(m.times.pairs.front().empty());
  CHECK(sides.pairs.size() < 50);
  // One that is left out now and then changes nothing.
  fake_sides some(clock);
  some.pair_s = 1;
  some.left_out = [](std::size_t n) { return n == 3; };
  m = measure(clock, some, cuda_l1_train_protocol, 0.2);
  CHECK(m.times.pairs.front().size() == bucket_count);
}

TEST_CASE("the reference first: all of its windows, then each content again on both sides") {
  auto protocol = paired_protocol;
  protocol.name = "reference_first/1";
  protocol.statistic = aggregation::ratio_of_means;
  protocol.order = call_order::reference_first;
  protocol.runs = 4;
  protocol.warm_ups = 3;
  base::manual_clock clock;
  fake_sides sides(clock);
  sides.calls = 2;
  auto m = measure(clock, sides, protocol);
  CHECK(m.outcome.ok());
  CHECK(sides.log == "r0 r1 r2 r3 c0 r0 = c1 r1 = c2 r2 = c3 r3 = ");
  CHECK(m.times.warm_ups == 2);
  CHECK(m.times.reference_ns == std::vector<double>{2002, 2002, 2003, 2003});
  REQUIRE(m.times.candidate_ns.size() == 4);
  CHECK(m.times.candidate_ns[3] == std::vector<double>{1003, 1003});
  CHECK(m.times.pairs.empty());

  // A window is drawn even where no warm-up is asked for.
  protocol.warm_ups = 0;
  fake_sides cold(clock);
  CHECK(measure(clock, cold, protocol).times.warm_ups == 1);

  fake_sides wrong(clock);
  wrong.calls = 2;
  wrong.wrong_at = 2;
  m = measure(clock, wrong, protocol);
  CHECK(m.outcome.detail == "as asked");
  CHECK(wrong.log == "r0 r1 r2 c0 r0 = c1 r1 = ");

  fake_sides pairs_alone(clock);
  pairs_alone.pairs_alone = true;
  m = measure(clock, pairs_alone, protocol);
  CHECK(m.outcome.kind == verdict_kind::infra_error);
  CHECK(contains(m.outcome.detail, "reference_first/1"));
}

TEST_CASE("a candidate whose calls leave no time for enough pairs is too slow, not disturbed") {
  // Pairs of 1 s, and 2.8 s for them with a budget of 0.2 s.
  const auto with = [](double pair_s, double took_ns, bool leaves_out = false) {
    base::manual_clock clock;
    fake_sides sides(clock);
    sides.pair_s = pair_s;
    sides.took_ns = took_ns;
    if (leaves_out) sides.left_out = [](std::size_t n) { return n > 2; };
    return measure(clock, sides).outcome;
  };
  const finding slow = with(1, 900);
  CHECK(slow.kind == verdict_kind::timeout);
  CHECK(slow.reason == "time");
  CHECK(contains(slow.detail, "3 pairs of windows"));
  CHECK(contains(slow.detail, "4 times as long"));
  // The reference's calls are as long; or there were enough, of which most were left out.
  CHECK(with(1, 300).ok());
  // One pair is too few to say so.
  CHECK(with(3, 900).ok());
  CHECK(with(0.3, 900, true).ok());
}

TEST_CASE("the reference first: a candidate that takes too long is given up") {
  // With a budget of 0.5 s it is given up at 65 s. 104 windows, one call in each.
  constexpr double budget_s = 0.5;
  constexpr std::size_t windows = 104;
  const auto with = [&](double reference_s, double candidate_s, double rehearsal_s = 0) {
    base::manual_clock clock;
    fake_sides sides(clock);
    sides.calls = 1;
    sides.pair_s = reference_s;
    sides.candidate_s = candidate_s;
    sides.rehearsal_s = rehearsal_s;
    auto m = measure(clock, sides, kernelbench_protocol, budget_s);
    CHECK(m.times.candidate_ns.size() == sides.drawn);
    return m;
  };
  const auto ends_late = [](const measured& m) {
    CAPTURE(m.outcome.detail);
    CHECK(m.outcome.kind == verdict_kind::timeout);
    CHECK(m.outcome.reason == "time");
    CHECK_FALSE(m.outcome.doubtful);
  };

  const measured hostile = with(0.001, 29);
  ends_late(hostile);
  CHECK(hostile.seconds < 65 + 29 + 1);
  CHECK(contains(hostile.outcome.detail, "3 of 104 windows"));
  CHECK(contains(hostile.outcome.detail, "kernelbench/1 gives a measurement up at 65.0 s"));
  // 104 windows of 0.62 s and 0.2 s of the reference are 64.7 s; of 0.64 s they are beyond it.
  const measured within = with(0.001, 0.62);
  CHECK(within.outcome.ok());
  CHECK(std::ranges::all_of(within.times.candidate_ns,
                            [](const auto& calls) { return calls.size() == 1; }));
  CHECK(within.times.candidate_ns.size() == windows);
  ends_late(with(0.001, 0.64));
  // What rehearsing takes is a part of it.
  CHECK(with(0.001, 0.3, 33).outcome.ok());
  ends_late(with(0.001, 0.3, 34));
  ends_late(with(0.001, 0.3, 87));

  // A slow reference is no fault of the candidate: one twice as slow is measured. 104 windows of
  // the reference are 52 s, and five times as long 260 s.
  CHECK(with(0.5, 0.5).outcome.ok());
  CHECK(with(0.5, 1).outcome.ok());
  // With room for hidden windows and for comparing, which these sides do not have: 31 s.
  CHECK(with(0.5, 1.3).outcome.ok());
  const measured slower = with(0.5, 2);
  ends_late(slower);
  CHECK(slower.seconds < 260 + 3);
  // Nor where the reference itself was given up.
  CHECK(with(10, 10, 60).outcome.ok());
  const measured no_counted_call = with(30, 40, 210);
  CHECK(no_counted_call.times.reference_ns.empty());
  CHECK(no_counted_call.outcome.ok());
}
