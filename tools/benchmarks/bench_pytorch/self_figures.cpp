// Figures of references as candidates.
#include "tools/benchmarks/bench_pytorch/self_figures.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "env/measure/stats.hpp"

namespace quern::tools {
namespace {

constexpr double long_call_us = 200;

}  // namespace

bool self_seen::take(const self_case& one, const env::verdict& v) {
  ++trials;
  if (v.kind == env::verdict_kind::noisy) {
    ++noisy;
    return true;
  }
  if (v.kind != env::verdict_kind::ok || !v.speedup_e2 || !v.time ||
      v.time->log_ratio_e9.size() != 3) {
    ++other;
    return false;
  }
  logs.push_back(static_cast<double>(v.time->log_ratio_e9[1]) * 1e-9);
  calls_us.push_back(static_cast<double>(v.time->ref_ns.front()) * 1e-3);
  told += one.percent == 0 ? *v.speedup_e2 != 100 : *v.speedup_e2 < 100;
  return true;
}

void self_seen::add(const self_seen& one) {
  trials += one.trials, noisy += one.noisy, other += one.other, told += one.told;
  logs.insert(logs.end(), one.logs.begin(), one.logs.end());
  calls_us.insert(calls_us.end(), one.calls_us.begin(), one.calls_us.end());
}

double self_seen::told_percent() const {
  return logs.empty() ? 0 : 100.0 * told / static_cast<double>(logs.size());
}

double self_seen::error(double quantile) const {
  std::vector<double> errors;
  for (const double one : logs)
    errors.push_back(std::abs(one));
  return env::quantile_of(errors, quantile);
}

pooled_self pool(std::span<const self_case> cases, std::span<const self_seen> seen) {
  pooled_self pooled;
  std::map<std::size_t, std::vector<double>> calls_us;  // of a module
  for (std::size_t c = 0; c < cases.size(); ++c) {
    auto& calls = calls_us[cases[c].module];
    calls.insert(calls.end(), seen[c].calls_us.begin(), seen[c].calls_us.end());
  }
  for (std::size_t c = 0; c < cases.size(); ++c) {
    const auto which = std::ranges::find(percents_more, cases[c].percent) - percents_more.begin();
    const bool above = env::median_of(calls_us[cases[c].module]) > long_call_us;
    (above ? pooled.above : pooled.below)[static_cast<std::size_t>(which)].add(seen[c]);
    pooled.unmeasured += seen[c].trials > 0 && seen[c].logs.empty() ? 1 : 0;
  }
  return pooled;
}

figure_table self_figures(const pooled_self& p) {
  figure_table table;
  self_seen itself = p.above[0];
  itself.add(p.below[0]);
  int trials = 0, other = 0;
  for (const auto* side : {&p.above, &p.below})
    for (const self_seen& one : *side)
      trials += one.trials, other += one.other;
  table.at_most("verdicts that are neither ok nor noisy", other, 0, "", trials);
  table.at_most("cases of which nothing was measured", p.unmeasured, 0, "", trials);
  if (p.above[0].trials > 0)
    table.at_most("the reference itself, above 200 us: P99 of the error",
                  100 * p.above[0].error(0.99), 0.5, "%", p.above[0].judged());
  if (itself.trials > 0)
    table.at_most("the reference itself: called different from 1.00", itself.told_percent(), 1, "%",
                  itself.judged());
  const auto slower = [&](const self_seen& seen, const char* where, std::size_t i, double told,
                          double noisy) {
    if (seen.trials == 0) return;
    table.at_least(fmt::format("{} % more work, {}: told", percents_more[i], where),
                   seen.told_percent(), told, "%", seen.judged());
    table.at_most(fmt::format("{} % more work, {}: noisy", percents_more[i], where),
                  100.0 * seen.noisy / seen.trials, noisy, "%", seen.trials);
  };
  // As of kernels in lane `cuda`.
  slower(p.above[1], "above 200 us", 1, 95, 5);
  slower(p.above[2], "above 200 us", 2, 99, 5);
  slower(p.above[3], "above 200 us", 3, 100, 5);
  slower(p.below[3], "below 200 us", 3, 99, 20);
  return table;
}

}  // namespace quern::tools
