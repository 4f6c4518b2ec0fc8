// bench_pytorch self: references as candidates, and the same with more work.
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"
#include "env/measure/stats.hpp"
#include "env/task/task_codec.hpp"
#include "tools/benchmarks/bench_modules_tasks.hpp"
#include "tools/benchmarks/bench_pytorch/bench_pytorch.hpp"
#include "tools/benchmarks/bench_pytorch/self_figures.hpp"

namespace quern::tools {
namespace {

/// Slower candidates of a kind for each one that is the reference.
constexpr double slower_share = 0.2;

/// Those that are asked for. Modules share --count evenly.
std::vector<self_case> self_cases(const pytorch_bench_options& o) {
  std::vector<self_case> cases;
  for (std::size_t m = 0; m < std::size(self_modules); ++m)
    for (const int percent : percents_more) {
      if (percent > 0 && std::string_view(self_modules[m].more).empty()) continue;
      const std::string kind = percent == 0 ? "itself" : fmt::format("plus_{}", percent);
      cases.push_back({fmt::format("{}.{}", self_modules[m].name, kind), m, percent});
    }
  std::erase_if(cases, [&](const self_case& one) { return !is_asked_for(one.name, o.only); });
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

void print_not_asked_for(const pooled_self& p) {
  self_seen itself = p.above[0];
  itself.add(p.below[0]);
  fmt::print("not asked for: the reference itself, noisy {} of {}", itself.noisy, itself.trials);
  if (p.below[0].judged() > 0)
    fmt::print("; below 200 us, P99 of the error: {:.2f} %", 100 * p.below[0].error(0.99));
  fmt::print("\n");
}

struct self_work {
  std::vector<self_case> cases;
  std::vector<env::evaluation_request> requests;
  std::vector<std::size_t> case_of;  ///< by place of the requests
};

/// One task behind the other: to change to another one takes as long as to judge.
base::expected<self_work> self_work_of(const pytorch_bench_options& o) {
  pytorch_bench_options all = o;
  all.only.clear();
  std::vector<std::string> names;
  for (const self_case& one : self_cases(all))
    names.push_back(one.name);
  QUERN_CHECK(check_only(o.only, names));
  self_work work{self_cases(o), {}, {}};
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

base::expected<bool> judge_against_themselves(const pytorch_bench_options& o) {
  const bench_part part(o);
  QUERN_TRY(const auto work, self_work_of(o));
  QUERN_TRY(const auto judge, open_module_judge(o));
  std::vector<self_seen> seen(work.cases.size());
  const auto take = [&](std::size_t place, const env::verdict& v, double) {
    const std::size_t c = work.case_of[place];
    if (!seen[c].take(work.cases[c], v))
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
  const pooled_self pooled = pool(work.cases, seen);
  print_not_asked_for(pooled);
  return self_figures(pooled).print() == 0 && whole;
}

}  // namespace

int bench_modules_against_themselves(const pytorch_bench_options& o) {
  const auto met = judge_against_themselves(o);
  return !met ? bench_failed(met.error()) : *met ? 0 : 1;
}

}  // namespace quern::tools
