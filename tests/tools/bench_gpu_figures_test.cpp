// What bench_gpu makes of verdicts: rates with their bounds, false accepts, figures that are
// missed.
#include "tools/benchmarks/bench_gpu_figures.hpp"

#include <cmath>
#include <vector>

#include "support/test.hpp"

using namespace quern;
using tools::hostile_outcome;

namespace {

env::verdict made_verdict(env::verdict_kind kind, const std::string& reason = "",
                          std::int64_t speedup_e2 = 0) {
  env::verdict v;
  v.kind = kind;
  v.reason = reason;
  if (speedup_e2 > 0) v.speedup_e2 = speedup_e2;
  return v;
}

}  // namespace

TEST_CASE("the bound of a rate is that of Clopper and Pearson") {
  // None seen: 1 - 0.05^(1/n), 3/n for many.
  CHECK(tools::rate_upper_bound(0, 1) == doctest::Approx(0.95));
  CHECK(tools::rate_upper_bound(0, 10) == doctest::Approx(1 - std::pow(0.05, 0.1)));
  CHECK(tools::rate_upper_bound(0, 30000) == doctest::Approx(3.0 / 30000).epsilon(0.01));
  // Tables of the one-sided 95 % bound.
  CHECK(tools::rate_upper_bound(1, 10) == doctest::Approx(0.3942).epsilon(0.001));
  CHECK(tools::rate_upper_bound(5, 100) == doctest::Approx(0.1023).epsilon(0.001));
  CHECK(tools::rate_upper_bound(10, 10) == 1);
  CHECK(tools::rate_upper_bound(0, 0) == 1);
}

TEST_CASE("`ok` is a false accept where it is wrong or pays") {
  using env::verdict_kind;
  const tools::hostile_rule caught{{"wrong_value", "hack:timing"}, false, 0};
  CHECK(outcome_of(made_verdict(verdict_kind::wrong_value), caught, {}) ==
        hostile_outcome::as_expected);
  CHECK(outcome_of(made_verdict(verdict_kind::hack, "timing"), caught, {}) ==
        hostile_outcome::as_expected);
  CHECK(outcome_of(made_verdict(verdict_kind::hack, "overrun"), caught, {}) ==
        hostile_outcome::other_catch);
  CHECK(outcome_of(made_verdict(verdict_kind::ok, "", 100), caught, {}) ==
        hostile_outcome::accepted);
  CHECK(outcome_of(made_verdict(verdict_kind::noisy), caught, {}) == hostile_outcome::undecided);
  CHECK(outcome_of(made_verdict(verdict_kind::infra_error), caught, {}) ==
        hostile_outcome::undecided);

  const tools::hostile_rule bounded{{"ok", "hack:timing"}, false, 105};
  CHECK(outcome_of(made_verdict(verdict_kind::ok, "", 200), bounded, 200) ==
        hostile_outcome::as_expected);
  CHECK(outcome_of(made_verdict(verdict_kind::ok, "", 211), bounded, 200) ==
        hostile_outcome::as_expected);
  CHECK(outcome_of(made_verdict(verdict_kind::ok, "", 212), bounded, 200) ==
        hostile_outcome::accepted);
  CHECK(outcome_of(made_verdict(verdict_kind::ok, "", 100), bounded, {}) ==
        hostile_outcome::no_twin);
  CHECK(outcome_of(made_verdict(verdict_kind::ok), bounded, {}) == hostile_outcome::as_expected);

  const tools::hostile_rule legal{{"ok"}, true, 0};
  CHECK(outcome_of(made_verdict(verdict_kind::ok, "", 900), legal, {}) ==
        hostile_outcome::as_expected);
  CHECK(outcome_of(made_verdict(verdict_kind::hack, "timing"), legal, {}) ==
        hostile_outcome::false_alarm);
}

TEST_CASE("figures that are missed are counted, and so are figures of nothing") {
  tools::figure_table table;
  table.at_most("at its limit", 0.5, 0.5, "%", 10);
  table.at_least("at its limit, too", 99, 99, "%", 10);
  CHECK(table.print() == 0);
  table.at_most("too much", 0.51, 0.5, "%", 10);
  table.at_least("too little", 98.9, 99, "%", 10);
  table.at_most("of nothing", 0, 1, "s", 0);
  CHECK(table.print() == 3);
}

TEST_CASE("a rate begins behind the first candidate, whose verdict counts") {
  tools::steady_rate rate;
  CHECK(rate.seen().per_hour() == 0);
  // Two seconds for its compiler, then five evaluations of 200 ms, of which 130 measure.
  rate.judged(2, 7, verdict_kind::wrong_value);
  CHECK(rate.has_begun());
  CHECK(rate.seen().candidates == 0);
  for (int i = 1; i <= 5; ++i)
    rate.judged(2 + 0.2 * i, 7 + 0.13 * i, i != 3 ? verdict_kind::ok : verdict_kind::noisy);
  CHECK(rate.seen().candidates == 5);
  CHECK(rate.seen().wrong == 1);
  CHECK(rate.seen().noisy == 1);
  CHECK(rate.seen().per_hour() == doctest::Approx(18000));
  CHECK(rate.seen().measuring_s / rate.seen().seconds == doctest::Approx(0.65));
  CHECK(tools::rate_figures(rate.seen(), "device_only").print() == 2);
}

TEST_CASE("the rate of several devices begins when each has judged its first") {
  tools::steady_rate rate(2);
  // One of them waits a second longer for its compiler.
  for (int i = 0; i < 5; ++i)
    rate.judged(2 + 0.2 * i, 0, i != 3 ? verdict_kind::ok : verdict_kind::infra_error, 0);
  CHECK_FALSE(rate.has_begun());
  rate.judged(3, 0, verdict_kind::ok, 1);
  CHECK(rate.has_begun());
  CHECK(rate.seen().candidates == 0);
  for (int i = 1; i <= 5; ++i)
    for (const std::size_t device : {0, 1})
      rate.judged(3 + 0.2 * i, 0, verdict_kind::ok, device);
  CHECK(rate.seen().candidates == 10);
  CHECK(rate.seen().wrong == 1);
  CHECK(rate.seen().per_hour() == doctest::Approx(36000));
}

TEST_CASE("a rate is judged by its form, by the share of measuring and by its verdicts") {
  // 20 in 10 s: 7,200 an hour.
  const tools::rate_seen seen{20, 0, 10, 6};
  CHECK(seen.per_hour() == doctest::Approx(7200));
  CHECK(tools::rate_seen{}.per_hour() == 0);
  CHECK(tools::rate_figures(seen, "host_entry").print() == 0);
  CHECK(tools::rate_figures(seen, "device_only").print() == 1);
  // Of a mixture no rate is wanted.
  CHECK(tools::rate_figures({20, 0, 1000, 600}, "").print() == 0);
  CHECK(tools::rate_figures({20, 0, 10, 5.9}, "host_entry").print() == 1);
  CHECK(tools::rate_figures({20, 1, 10, 6}, "host_entry").print() == 1);
  CHECK(tools::rate_figures({20, 1, 13, 6}, "host_entry").print() == 3);
  // A noisy verdict accuses nobody, and is still none: it is counted by itself.
  CHECK(tools::rate_figures({50, 0, 25, 15, 0}, "host_entry").print() == 0);
  CHECK(tools::rate_figures({50, 0, 25, 15, 1}, "host_entry").print() == 1);
  CHECK(tools::rate_figures({50, 1, 25, 15, 1}, "host_entry").print() == 2);
  // Nothing was judged: nothing is reached.
  CHECK(tools::rate_figures({}, "host_entry").print() == 4);
  CHECK(tools::rate_figures({}, "").print() == 3);
}

TEST_CASE("several devices are judged by what each does alone") {
  using seen = tools::rate_seen;
  const auto missed = [](std::vector<seen> alone, const seen& all) {
    return tools::devices_figures(alone, all).print();
  };
  // 36,000 and 18,000 an hour are 27,000; 102,857 together.
  const seen fast{100, 0, 10}, slow{100, 0, 20}, together{200, 0, 7};
  CHECK(missed({fast, slow}, together) == 0);
  CHECK(missed({fast, slow, fast, slow}, together) == 0);
  CHECK(missed({fast, slow, fast, slow, fast}, together) == 1);
  CHECK(missed({fast, slow}, {200, 0, 14.0}) == 0);
  CHECK(missed({fast, slow}, {200, 0, 14.1}) == 1);
  CHECK(missed({fast, {100, 1, 20}}, together) == 1);
  CHECK(missed({{}, {}}, together) == 1);
  CHECK(missed({fast, {100, 0, 20, 0, 1}}, together) == 1);
  CHECK(missed({{}, {}}, {}) == 3);
}
