// What bench_gpu makes of verdicts: rates with their bounds, false accepts, figures that are
// missed.
#include "tools/bench_gpu_figures.hpp"

#include <cmath>

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
