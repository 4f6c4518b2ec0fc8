#include "tools/benchmarks/bench_gpu_figures.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include <fmt/format.h>

namespace quern::tools {
namespace {

/// Probability of at most k of n at rate p.
double at_most_k(std::int64_t k, std::int64_t n, double p) {
  if (p <= 0) return 1;
  if (p >= 1) return k >= n ? 1 : 0;
  double sum = 0;
  const auto size = static_cast<double>(n);
  for (std::int64_t i = 0; i <= k; ++i) {
    const auto at = static_cast<double>(i);
    sum += std::exp(std::lgamma(size + 1) - std::lgamma(at + 1) - std::lgamma(size - at + 1) +
                    at * std::log(p) + (size - at) * std::log1p(-p));
  }
  return sum;
}

/// Candidates an hour, by form.
constexpr std::pair<std::string_view, double> wanted_rates[] = {{"device_only", 15000},
                                                                {"host_entry", 6000}};
constexpr double wanted_measuring_percent = 60;
/// Of the work of one device, for each further one: what a host with two has to do is 1.9.
constexpr double wanted_of_two = 1.9;

bool holds(const std::vector<std::string>& right, const std::string& what) {
  return std::find(right.begin(), right.end(), what) != right.end();
}

}  // namespace

double rate_upper_bound(std::int64_t k, std::int64_t n) {
  if (n <= 0 || k >= n) return 1;
  double low = static_cast<double>(k) / static_cast<double>(n), high = 1;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (at_most_k(k, n, middle) > 0.05 ? low : high) = middle;
  }
  return high;
}

bool figure_table::figure::met() const {
  return of > 0 && (at_most ? reached <= wanted : reached >= wanted);
}

void figure_table::at_most(std::string name, double reached, double wanted, std::string unit,
                           std::int64_t of) {
  figures_.push_back({std::move(name), std::move(unit), reached, wanted, true, of});
}

void figure_table::at_least(std::string name, double reached, double wanted, std::string unit,
                            std::int64_t of) {
  figures_.push_back({std::move(name), std::move(unit), reached, wanted, false, of});
}

int figure_table::print() const {
  int missed = 0;
  for (const auto& f : figures_) {
    const std::string reached =
        f.of > 0 ? fmt::format("{:.2f} {}", f.reached, f.unit) : "nothing measured";
    fmt::print("{} {:<58} {} {:g} {}: {} (of {})\n", f.met() ? "  " : "**", f.name,
               f.at_most ? "at most" : "at least", f.wanted, f.unit, reached, f.of);
    missed += f.met() ? 0 : 1;
  }
  return missed;
}

double rate_seen::per_hour() const {
  return seconds > 0 ? 3600 * static_cast<double>(candidates) / seconds : 0;
}

void steady_rate::judged(double now_s, double measuring_s, env::verdict_kind kind,
                         std::size_t device) {
  if (kind == env::verdict_kind::noisy)
    ++seen_.noisy;
  else if (kind != env::verdict_kind::ok)
    ++seen_.wrong;
  if (!has_begun()) {
    begun_.insert(device);
    start_s_ = now_s;
    measured_s_ = measuring_s;
    return;
  }
  ++seen_.candidates;
  seen_.seconds = now_s - start_s_;
  seen_.measuring_s = measuring_s - measured_s_;
}

namespace {

void verdicts_figures(figure_table& table, std::int64_t wrong, std::int64_t noisy,
                      std::int64_t of) {
  table.at_most("wrong verdicts on honest candidates", static_cast<double>(wrong), 0, "", of);
  table.at_most("honest candidates that were noisy", static_cast<double>(noisy), 0, "", of);
}

}  // namespace

figure_table rate_figures(const rate_seen& seen, std::string_view form) {
  figure_table table;
  for (const auto& [name, wanted] : wanted_rates)
    if (form == name)
      table.at_least(fmt::format("distinct candidates an hour ({})", form), seen.per_hour(), wanted,
                     "", seen.candidates);
  table.at_least("share of the time in which the device measures",
                 seen.seconds > 0 ? 100 * seen.measuring_s / seen.seconds : 0,
                 wanted_measuring_percent, "%", seen.candidates);
  verdicts_figures(table, seen.wrong, seen.noisy, seen.candidates);
  return table;
}

figure_table devices_figures(std::span<const rate_seen> alone, const rate_seen& all) {
  figure_table table;
  const auto devices = static_cast<double>(alone.size());
  double one = 0;
  auto wrong = all.wrong, noisy = all.noisy, candidates = all.candidates;
  for (const auto& seen : alone) {
    one += seen.per_hour() / devices;
    wrong += seen.wrong;
    noisy += seen.noisy;
    candidates += seen.candidates;
  }
  table.at_least(fmt::format("work of {} devices over that of one", alone.size()),
                 one > 0 ? all.per_hour() / one : 0, 1 + (wanted_of_two - 1) * (devices - 1), "",
                 one > 0 ? all.candidates : 0);
  verdicts_figures(table, wrong, noisy, candidates);
  return table;
}

std::string name_of(hostile_outcome outcome) {
  switch (outcome) {
    case hostile_outcome::as_expected:
      return "as expected";
    case hostile_outcome::other_catch:
      return "caught by another check";
    case hostile_outcome::false_alarm:
      return "FALSE ALARM";
    case hostile_outcome::undecided:
      return "undecided";
    case hostile_outcome::no_twin:
      return "ok, its twin was not measured";
    case hostile_outcome::accepted:
      return "FALSE ACCEPT";
  }
  return "";
}

hostile_outcome outcome_of(const env::verdict& v, const hostile_rule& rule,
                           std::optional<std::int64_t> twin_e2) {
  const std::string kind(env::name_of(v.kind));
  const bool right =
      holds(rule.right, kind) || (!v.reason.empty() && holds(rule.right, kind + ":" + v.reason));
  switch (v.kind) {
    case env::verdict_kind::ok:
      if (!right) return hostile_outcome::accepted;
      // Where nothing was timed there is no claim that could pay.
      if (rule.pays_at_most_e2 == 0 || !v.speedup_e2) return hostile_outcome::as_expected;
      if (!twin_e2) return hostile_outcome::no_twin;
      // A claim has steps of a hundredth.
      return 100 * (*v.speedup_e2 - 1) > rule.pays_at_most_e2 * *twin_e2
                 ? hostile_outcome::accepted
                 : hostile_outcome::as_expected;
    case env::verdict_kind::noisy:
    case env::verdict_kind::unconfirmed:
    case env::verdict_kind::infra_error:
    case env::verdict_kind::invalid_reference:
    case env::verdict_kind::unsupported:
      return right ? hostile_outcome::as_expected : hostile_outcome::undecided;
    default:
      if (right) return hostile_outcome::as_expected;
      return rule.legal ? hostile_outcome::false_alarm : hostile_outcome::other_catch;
  }
}

}  // namespace quern::tools
