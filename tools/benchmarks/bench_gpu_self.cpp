// bench_gpu self: a kernel against itself, and against itself made slower, through whole
// evaluations: the candidate is the text of its task's plain baseline.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <set>

#include <fmt/format.h>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "env/measure/null_distribution.hpp"
#include "env/measure/stats.hpp"
#include "env/tensor_task/tensor_body.hpp"
#include "tools/benchmarks/bench_gpu.hpp"
#include "tools/benchmarks/bench_gpu_figures.hpp"
#include "tools/benchmarks/bench_gpu_kernels.hpp"

namespace quern::tools {
namespace {

constexpr double long_call_ns = 200e3;
/// A P99 of fewer is hardly more than a guess.
constexpr int least_calibrating_trials = 20;
constexpr std::array<int, 4> percents_more = {0, 2, 5, 20};

/// One kernel, so much slower, over its trials.
struct self_result {
  int trials = 0, noisy = 0, failed = 0, told = 0, wrong_sign = 0;
  double call_ns = 0;
  std::vector<double> ratios, errors, windows, wall_s, device_s;

  void add(const self_result& other) {
    trials += other.trials, noisy += other.noisy, failed += other.failed;
    told += other.told, wrong_sign += other.wrong_sign;
    const auto append = [](std::vector<double>& to, const std::vector<double>& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    append(ratios, other.ratios), append(errors, other.errors), append(windows, other.windows);
    append(wall_s, other.wall_s), append(device_s, other.device_s);
  }
  [[nodiscard]] std::int64_t judged() const { return static_cast<std::int64_t>(errors.size()); }
};

double percent(double part, double whole) {
  return whole > 0 ? 100 * part / whole : 0;
}

struct self_case {
  std::string name;
  std::shared_ptr<const env::task> subject;
  std::array<std::string, percents_more.size()> sources;  ///< empty: there is none
};

std::vector<self_case> made_up_kernels() {
  std::vector<self_case> cases;
  for (const auto& k : self_kernels) {
    self_case c{k.name, std::make_shared<const env::task>(self_task(k)), {}};
    for (std::size_t i = 0; i < percents_more.size(); ++i)
      c.sources[i] = self_source(k, percents_more[i]);
    cases.push_back(std::move(c));
  }
  return cases;
}

/// Tasks of cuda_quick, one honest plan of each: it becomes its task's baseline.
std::vector<self_case> kernels_of_a_suite(const gpu_bench_options& o) {
  gpu_bench_options asked = o;
  asked.only = "";
  asked.form = "device_only";
  if (asked.suite.empty()) asked.suite = "cuda_quick";
  std::vector<self_case> cases;
  std::set<std::string> seen;
  for (const auto& f : honest_files(asked)) {
    if (!seen.insert(f.request.subject->name).second) continue;
    env::task t = *f.request.subject;
    auto tensors = std::make_shared<env::tensor_body>(env::tensors_of(t));
    tensors->plain = f.request.source;
    t.body = std::move(tensors);
    t.baseline = env::baseline_kind::plain;
    cases.push_back({f.file, std::make_shared<const env::task>(std::move(t)), {}});
    cases.back().sources[0] = f.request.source;
  }
  return cases;
}

std::vector<env::evaluation_request> trials_of(const self_case& c, std::size_t which, int trials) {
  std::vector<env::evaluation_request> list;
  for (int t = 0; t < trials; ++t) {
    env::evaluation_request r;
    r.subject = c.subject;
    // A source of its own: equal ones would be pooled.
    r.source = marked_source(c.sources[which], fmt::format("trial_{}", t));
    r.seed = static_cast<std::uint64_t>(t);
    list.push_back(std::move(r));
  }
  return list;
}

self_result run_trials(env::cuda_evaluator& with, const gpu_bench_options& o, const self_case& c,
                       std::size_t which, int trials) {
  const auto requests = trials_of(c, which, trials);
  build_ahead ahead(with, requests, o.threads);
  const base::steady_clock clock;
  self_result all;
  for (std::size_t t = 0; t < requests.size(); ++t) {
    ahead.now_at(t);
    const auto begun = clock.now_ns();
    const double leased = with.device_time().leased;
    const auto v = with.evaluate(requests[t]);
    all.wall_s.push_back(static_cast<double>(clock.now_ns() - begun) * 1e-9);
    all.device_s.push_back(with.device_time().leased - leased);
    ++all.trials;
    if (v.kind == env::verdict_kind::noisy) {
      ++all.noisy;
      continue;
    }
    if (v.kind != env::verdict_kind::ok || !v.time || !v.speedup_e2) {
      if (++all.failed == 1)
        fmt::print("** {} +{} %: {} {}\n", c.name, percents_more[which],
                   std::string(env::name_of(v.kind)), v.detail.substr(0, 400));
      continue;
    }
    const double ratio = static_cast<double>(v.time->log_ratio_e9[1]) * 1e-9;
    all.ratios.push_back(ratio);
    all.errors.push_back(std::abs(ratio));
    all.windows.push_back(static_cast<double>(v.time->windows));
    all.call_ns = static_cast<double>(v.time->ref_ns[3]);
    all.told += which == 0 ? *v.speedup_e2 != 100 : *v.speedup_e2 < 100;
    all.wrong_sign += ratio >= 0;
    if (which == 0 && *v.speedup_e2 != 100)
      fmt::print("   {} claims x{:.2f} against itself: interval {:+.2f} to {:+.2f} %, {} pairs\n",
                 c.name, static_cast<double>(*v.speedup_e2) / 100,
                 static_cast<double>(v.time->log_ratio_e9[0]) * 1e-7,
                 static_cast<double>(v.time->log_ratio_e9[2]) * 1e-7, v.time->windows);
  }
  return all;
}

void print_case(const self_case& c, int more, const self_result& r) {
  if (r.errors.empty()) {
    fmt::print("** {:<40} +{:2} %: nothing measured, noisy {}, failed {} of {}\n", c.name, more,
               r.noisy, r.failed, r.trials);
    return;
  }
  fmt::print(
      "   {:<40} +{:2} %  call {:7.1f} us  median {:+.2f} %  |.| p50 {:.2f} %  p99 {:.2f} %  {} "
      "{} of {}, wrong sign {}, noisy {}, failed {}  {:.0f} pairs, {:.2f} s of the device, {:.2f} "
      "s in all\n",
      c.name, more, r.call_ns / 1000, 100 * env::median_of(r.ratios),
      100 * env::quantile_of(r.errors, 0.5), 100 * env::quantile_of(r.errors, 0.99),
      more == 0 ? "claimed not 1.00:" : "told:", r.told, r.judged(), r.wrong_sign, r.noisy,
      r.failed, env::median_of(r.windows), env::median_of(r.device_s), env::median_of(r.wall_s));
}

struct pooled {
  /// By percents_more; kernels above long_call_ns, and the others.
  std::array<self_result, percents_more.size()> above, below;
};

/// The figures that are wanted; what was not asked for (--whole has no slower kernels) is left out.
int print_figures(const pooled& p) {
  figure_table table;
  const auto& long_ones = p.above[0];
  const auto& short_ones = p.below[0];
  std::vector<double> device_s;
  int failed = 0, trials = 0;
  for (const auto* side : {&p.above, &p.below})
    for (const auto& r : *side) {
      device_s.insert(device_s.end(), r.device_s.begin(), r.device_s.end());
      failed += r.failed;
      trials += r.trials;
    }
  const auto of_device = static_cast<std::int64_t>(device_s.size());
  table.at_most("device time of an evaluation, the longest",
                device_s.empty() ? 0 : *std::max_element(device_s.begin(), device_s.end()), 1, "s",
                of_device);
  table.at_most("evaluations that failed", failed, 0, "", trials);
  if (long_ones.trials > 0)
    table.at_most("against itself, above 200 us: P99 of the error",
                  100 * env::quantile_of(long_ones.errors, 0.99), 0.5, "%", long_ones.judged());
  const auto claims_nothing = [&](const self_result& r, const char* where) {
    if (r.trials == 0) return;
    table.at_most(fmt::format("against itself, {}: claimed not 1.00", where),
                  percent(r.told, static_cast<double>(r.judged())), 1, "%", r.judged());
  };
  claims_nothing(long_ones, "above 200 us");
  claims_nothing(short_ones, "below 200 us");
  const auto slower = [&](const self_result& r, const char* where, std::size_t i, double told,
                          double noisy) {
    if (r.trials == 0) return;
    table.at_least(
        fmt::format("{} % slower, {}: told, with the right sign", percents_more[i], where),
        percent(r.told, static_cast<double>(r.judged())), told, "%", r.judged());
    table.at_most(fmt::format("{} % slower, {}: noisy", percents_more[i], where),
                  percent(r.noisy, r.trials), noisy, "%", r.trials);
  };
  slower(p.above[1], "above 200 us", 1, 95, 5);
  slower(p.above[2], "above 200 us", 2, 99, 5);
  slower(p.above[3], "above 200 us", 3, 100, 5);
  slower(p.below[3], "below 200 us", 3, 99, 20);
  fmt::print(
      "not asked for: against itself, below 200 us, P99 of the error: {:.2f} %; noisy against "
      "itself: {} of {}\n",
      100 * env::quantile_of(short_ones.errors, 0.99), long_ones.noisy + short_ones.noisy,
      long_ones.trials + short_ones.trials);
  return table.print();
}

/// Writes what evaluators of this host are to take for the null distribution of the device's class.
/// Nothing of a short call is better known than of a longer one: where two kernels contradict each
/// other the worse one counts.
int keep_calibration(std::vector<env::null_point> points, const std::string& device_class) {
  std::sort(points.begin(), points.end(),
            [](const auto& a, const auto& b) { return a.call_ns < b.call_ns; });
  for (std::size_t i = points.size(); i-- > 1;)
    points[i - 1].p99 = std::max(points[i - 1].p99, points[i].p99);
  const auto file = env::null_distribution::file_of(device_class);
  auto made = env::null_distribution::make(std::move(points));
  base::status kept;
  if (made) kept = base::make_folders(file.parent_path());
  if (made && kept)
    kept = base::write_file_atomic(file, base::dump_pretty(made->to_json(device_class)) + "\n");
  if (!made || !kept) {
    std::fprintf(stderr, "bench_gpu: %s\n", (made ? kept.error() : made.error()).message.c_str());
    return 1;
  }
  fmt::print("evaluators of this host take it from now on: {}\n", file.string());
  return 0;
}

}  // namespace

int bench_self(const gpu_bench_options& o) {
  if (o.calibrate && (!o.only.empty() || o.whole || o.trials < least_calibrating_trials)) {
    std::fprintf(stderr,
                 "bench_gpu: --calibrate goes by all made-up kernels: without --only and --whole, "
                 "with --trials of at least %d (it is %d)\n",
                 least_calibrating_trials, o.trials);
    return 2;
  }
  const auto cases = o.whole ? kernels_of_a_suite(o) : made_up_kernels();
  const auto with = open_evaluator(o);
  // What starts once a run is nobody's device time.
  if (!cases.empty()) {
    auto first = trials_of(cases.front(), 0, 1).front();
    first.source = marked_source(cases.front().sources[0], "before_all");
    with->evaluate(first);
  }
  const base::steady_clock clock;
  const auto start = clock.now_ns();
  pooled all;
  std::vector<env::null_point> null;
  int evaluations = 0;
  for (const auto& c : cases) {
    if (!is_asked_for(o, c.name)) continue;
    bool above = false;
    for (std::size_t i = 0; i < percents_more.size(); ++i) {
      if (c.sources[i].empty()) continue;
      const auto r = run_trials(*with, o, c, i, i == 0 ? o.trials : std::max(1, o.trials / 2));
      print_case(c, percents_more[i], r);
      if (i == 0) above = r.call_ns > long_call_ns;
      if (i == 0 && !r.errors.empty())
        null.push_back({r.call_ns, env::quantile_of(r.errors, 0.99)});
      (above ? all.above : all.below)[i].add(r);
      evaluations += r.trials;
    }
  }
  fmt::print("{} evaluations in {:.1f} s, budget {:g} s each\n", evaluations,
             static_cast<double>(clock.now_ns() - start) * 1e-9, o.budget_s);
  const int missed = print_figures(all);
  if (o.calibrate && keep_calibration(std::move(null), with->device_class()) != 0) return 1;
  return missed == 0 ? 0 : 1;
}

}  // namespace quern::tools
