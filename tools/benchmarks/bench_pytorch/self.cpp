// bench_pytorch self: references as candidates, and the same with the work of more rows.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"
#include "env/measure/stats.hpp"
#include "env/task/task_codec.hpp"
#include "tools/benchmarks/bench_gpu_figures.hpp"
#include "tools/benchmarks/bench_modules_tasks.hpp"
#include "tools/benchmarks/bench_pytorch/bench_pytorch.hpp"

namespace quern::tools {
namespace {

constexpr double long_call_us = 200;
/// Slower candidates of a kind for each one that is the reference.
constexpr double slower_share = 0.2;
constexpr std::array<int, 4> percents_more = {0, 2, 5, 20};

/// A reference that does the work of so many percent of its rows twice.
struct self_case {
  std::string name;
  std::size_t module = 0;  ///< of self_modules
  int percent = 0;
  int trials = 0;
};

struct self_seen {
  int trials = 0, noisy = 0, other = 0, told = 0;
  std::vector<double> logs, calls_us;

  void add(const self_seen& one) {
    trials += one.trials, noisy += one.noisy, other += one.other, told += one.told;
    logs.insert(logs.end(), one.logs.begin(), one.logs.end());
    calls_us.insert(calls_us.end(), one.calls_us.begin(), one.calls_us.end());
  }
  [[nodiscard]] auto judged() const { return static_cast<std::int64_t>(logs.size()); }
  [[nodiscard]] double told_percent() const {
    return logs.empty() ? 0 : 100.0 * told / static_cast<double>(logs.size());
  }
  /// A quantile of the absolute values of ln(speed-up).
  [[nodiscard]] double error(double quantile) const {
    std::vector<double> errors;
    for (const double one : logs)
      errors.push_back(std::abs(one));
    return env::quantile_of(errors, quantile);
  }
};

/// Those that are asked for. Modules share --count evenly.
std::vector<self_case> self_cases(const pytorch_bench_options& o) {
  std::vector<self_case> cases;
  for (std::size_t m = 0; m < std::size(self_modules); ++m)
    for (const int percent : percents_more) {
      if (percent > 0 && std::string_view(self_modules[m].more).empty()) continue;
      const std::string kind = percent == 0 ? "itself" : fmt::format("plus_{}", percent);
      cases.push_back({fmt::format("{}.{}", self_modules[m].name, kind), m, percent});
    }
  keep_named(cases, o.only);
  std::set<std::size_t> modules;
  for (const self_case& one : cases)
    modules.insert(one.module);
  for (self_case& one : cases) {
    const double itself =
        std::ceil(static_cast<double>(o.count) / static_cast<double>(modules.size()));
    one.trials = static_cast<int>(one.percent == 0 ? itself : std::ceil(slower_share * itself));
  }
  return cases;
}

/// Whether the verdict is one that such a candidate may get.
bool take_self(const self_case& one, const env::verdict& v, self_seen& seen) {
  ++seen.trials;
  if (v.kind == env::verdict_kind::noisy) {
    ++seen.noisy;
    return true;
  }
  if (v.kind != env::verdict_kind::ok || !v.speedup_e2 || !v.time ||
      v.time->log_ratio_e9.size() != 3) {
    ++seen.other;
    return false;
  }
  seen.logs.push_back(static_cast<double>(v.time->log_ratio_e9[1]) * 1e-9);
  seen.calls_us.push_back(static_cast<double>(v.time->ref_ns.front()) * 1e-3);
  seen.told += one.percent == 0 ? *v.speedup_e2 != 100 : *v.speedup_e2 < 100;
  return true;
}

void print_case(const self_case& one, const self_seen& seen) {
  if (seen.logs.empty()) {
    fmt::print("** {:<18} nothing measured: noisy {}, others {} of {}\n", one.name, seen.noisy,
               seen.other, seen.trials);
    return;
  }
  fmt::print(
      "   {:<18} call {:6.1f} us  median {:+.2f} %  |.| P50 {:.2f} %  P90 {:.2f} %  P99 {:.2f} %  "
      "{} {} of {}, noisy {}, others {}\n",
      one.name, env::median_of(seen.calls_us), 100 * env::median_of(seen.logs),
      100 * seen.error(0.5), 100 * seen.error(0.9), 100 * seen.error(0.99),
      one.percent == 0 ? "called different from 1.00:" : "told:", seen.told, seen.judged(),
      seen.noisy, seen.other);
}

/// By percents_more, of modules whose calls take longer than long_call_us, and of the others.
struct pooled_self {
  std::array<self_seen, percents_more.size()> above, below;
  int unmeasured = 0;  ///< cases whose every verdict is noisy or worse
};

/// The figures that are wanted of what was asked for; how many were missed.
int print_self_figures(const pooled_self& p) {
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
    table.at_least(fmt::format("the work of {} % more rows, {}: told", percents_more[i], where),
                   seen.told_percent(), told, "%", seen.judged());
    table.at_most(fmt::format("the work of {} % more rows, {}: noisy", percents_more[i], where),
                  100.0 * seen.noisy / seen.trials, noisy, "%", seen.trials);
  };
  // As of kernels in lane `cuda`.
  slower(p.above[1], "above 200 us", 1, 95, 5);
  slower(p.above[2], "above 200 us", 2, 99, 5);
  slower(p.above[3], "above 200 us", 3, 100, 5);
  slower(p.below[3], "below 200 us", 3, 99, 20);
  fmt::print("not asked for: the reference itself, noisy {} of {}", itself.noisy, itself.trials);
  if (p.below[0].judged() > 0)
    fmt::print("; below 200 us, P99 of the error: {:.2f} %", 100 * p.below[0].error(0.99));
  fmt::print("\n");
  return table.print();
}

struct self_work {
  std::vector<self_case> cases;
  std::vector<env::evaluation_request> requests;
  std::vector<std::size_t> case_of;  ///< by place of the requests
};

/// One task behind the other: to change to another one takes as long as to judge.
base::expected<self_work> self_work_of(const pytorch_bench_options& o) {
  self_work work{self_cases(o), {}, {}};
  if (work.cases.empty()) {
    pytorch_bench_options all = o;
    all.only.clear();
    std::vector<std::string> names;
    for (const self_case& one : self_cases(all))
      names.push_back(one.name);
    return base::fail(base::errc::invalid_argument,
                      "--only {}: no case has that in its name; they are {}", o.only,
                      fmt::join(names, ", "));
  }
  std::map<std::size_t, std::shared_ptr<const env::task>> tasks;
  for (std::size_t c = 0; c < work.cases.size(); ++c) {
    const self_case& one = work.cases[c];
    const self_module& module = self_modules[one.module];
    auto& task = tasks[one.module];
    if (!task) {
      QUERN_TRY(auto parsed, env::parse_task(self_task(module, true)));
      task = std::make_shared<const env::task>(std::move(parsed));
    }
    for (int trial = 0; trial < one.trials; ++trial) {
      env::evaluation_request request;
      request.subject = task;
      request.source = slower_candidate(module, trial, one.percent, true);
      request.seed = o.seed + static_cast<std::uint64_t>(trial);
      work.requests.push_back(std::move(request));
      work.case_of.push_back(c);
    }
  }
  return work;
}

pooled_self pool(const std::vector<self_case>& cases, const std::vector<self_seen>& seen) {
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

base::expected<bool> judge_against_themselves(const pytorch_bench_options& o) {
  const bench_part part(o);
  QUERN_TRY(const auto work, self_work_of(o));
  QUERN_TRY(const auto judge, open_module_judge(o));
  std::vector<self_seen> seen(work.cases.size());
  const auto take = [&](std::size_t place, const env::verdict& v, double) {
    const std::size_t c = work.case_of[place];
    if (!take_self(work.cases[c], v, seen[c]))
      fmt::print("** {:<18} {}  {}\n", work.cases[c].name, kind_text(v),
                 base::one_line(v.detail).substr(0, 400));
  };
  const bool whole =
      judge_in_turn({judge.get()}, work.requests, part.places(work.requests.size()), o, part, take);
  int judged = 0;
  for (std::size_t c = 0; c < work.cases.size(); ++c) {
    judged += seen[c].trials;
    if (seen[c].trials > 0) print_case(work.cases[c], seen[c]);
  }
  fmt::print("self {} judged in {:.0f} s, part {} of {}, budget {:.2f} s, precision {:.2f} %\n",
             judged, part.seconds(), o.part, o.parts, o.budget_s, 100 * o.precision);
  return print_self_figures(pool(work.cases, seen)) == 0 && whole;
}

}  // namespace

int bench_modules_against_themselves(const pytorch_bench_options& o) {
  const auto met = judge_against_themselves(o);
  return !met ? bench_failed(met.error()) : *met ? 0 : 1;
}

}  // namespace quern::tools
