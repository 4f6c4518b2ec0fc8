// bench_gpu agreement: honest candidates by the usual measurement and by a long one.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <mutex>
#include <set>

#include <fmt/format.h>

#include "base/clock.hpp"
#include "base/json.hpp"
#include "tools/benchmarks/bench_gpu.hpp"
#include "tools/benchmarks/bench_gpu_figures.hpp"

namespace quern::tools {
namespace {

constexpr double most_difference = 0.01;
/// Half the width of an interval: of a verdict that states more, it is printed.
constexpr double sure_half_width = 0.02;

/// Evenly from the plans and from the host-entry ones, of which there are fewer.
std::vector<candidate_file> choose_kernels(const gpu_bench_options& o) {
  std::vector<candidate_file> plans, others, chosen;
  for (auto& f : honest_files(o))
    (f.form == "device_only" ? plans : others).push_back(std::move(f));
  const auto wanted = static_cast<std::size_t>(o.kernels);
  std::size_t of_others = std::min(others.size(), wanted / 3);
  const std::size_t of_plans = std::min(plans.size(), wanted - of_others);
  of_others = std::min(others.size(), wanted - of_plans);
  for (std::size_t i = 0; i < of_plans; ++i)
    chosen.push_back(plans[i * plans.size() / of_plans]);
  for (std::size_t i = 0; i < of_others; ++i)
    chosen.push_back(others[i * others.size() / of_others]);
  return chosen;
}

struct agreement_line {
  std::string file, form, environment;
  double long_s = 0, budget_s = 0, call_us = 0, usual = 0, long_one = 0;  ///< ln of the ratios
  double low = 0, high = 0;                                               ///< of the usual one
  std::int64_t usual_pairs = 0, long_pairs = 0;

  [[nodiscard]] double difference() const { return std::exp(usual - long_one) - 1; }
  [[nodiscard]] bool sure() const { return high - low <= 2 * sure_half_width; }
  [[nodiscard]] bool agrees() const { return std::abs(difference()) <= most_difference; }
};

base::json to_json(const agreement_line& l) {
  return {{"file", l.file},
          {"form", l.form},
          {"environment", l.environment},
          {"long_s", l.long_s},
          {"budget_s", l.budget_s},
          {"call_us", l.call_us},
          {"usual", l.usual},
          {"long", l.long_one},
          {"low", l.low},
          {"high", l.high},
          {"usual_pairs", l.usual_pairs},
          {"long_pairs", l.long_pairs}};
}

/// Of an earlier part; lines of another build, budget or length are left out.
std::vector<agreement_line> earlier_lines(const gpu_bench_options& o,
                                          const std::string& environment) {
  std::vector<agreement_line> lines;
  std::ifstream file(o.out);
  for (std::string text; !o.out.empty() && std::getline(file, text);) {
    const auto value = base::parse_json(text);
    if (!value || !value->is_object()) continue;
    agreement_line l;
    l.file = value->value("file", "");
    l.form = value->value("form", "");
    l.environment = value->value("environment", "");
    l.long_s = value->value("long_s", 0.0);
    l.budget_s = value->value("budget_s", 0.0);
    l.call_us = value->value("call_us", 0.0);
    l.usual = value->value("usual", 0.0);
    l.long_one = value->value("long", 0.0);
    l.low = value->value("low", 0.0);
    l.high = value->value("high", 0.0);
    l.usual_pairs = value->value("usual_pairs", std::int64_t{0});
    l.long_pairs = value->value("long_pairs", std::int64_t{0});
    if (l.environment == environment && l.long_s == o.long_s && l.budget_s == o.budget_s)
      lines.push_back(std::move(l));
    else
      fmt::print("   {}: {} is of another build, budget or length: left out\n", o.out, l.file);
  }
  return lines;
}

std::optional<env::verdict> measured(env::cuda_evaluator& with, const candidate_file& f,
                                     const char* how) {
  auto r = f.request;
  // A text of its own, or what the one before found would count, too.
  r.source = marked_source(r.source, fmt::format("{}_measurement", how));
  // No second measurement to bear out a large claim: one is compared with one.
  r.recheck_above = 1e6;
  for (int i = 0; i < 3; ++i) {
    r.recheck = i > 0;
    auto v = with.evaluate(r);
    if (v.kind == env::verdict_kind::ok && v.time) return v;
    fmt::print("** {} ({}): {} {}\n", f.file, how, short_verdict(v), v.detail.substr(0, 300));
  }
  return std::nullopt;
}

class agreement_run {
 public:
  explicit agreement_run(const gpu_bench_options& o) : o_(o), kernels_(choose_kernels(o)) {
    to_ = std::min(kernels_.size(), static_cast<std::size_t>(std::max(o.to, 0)));
    next_ = from_ = static_cast<std::size_t>(std::max(o.from, 0));
  }

  int run() {
    std::vector<std::thread> threads;
    for (const int gpu : o_.gpus)
      threads.emplace_back([this, gpu] { on_gpu(gpu); });
    for (auto& t : threads)
      t.join();
    return report();
  }

 private:
  void on_gpu(int gpu) {
    // The same processes and the same memory for both: another evaluator's kernels read from other
    // places, which makes up to 2 % for some.
    const auto with = open_evaluator(o_, gpu, o_.budget_s, -1);
    {
      const std::lock_guard lock(guard_);
      if (!read_) {
        for (auto& line : earlier_lines(o_, with->environment()))
          lines_.emplace(line.file, line);
        read_ = true;
      }
    }
    for (std::size_t i = next_++; i < to_; i = next_++) {
      const auto& f = kernels_[i];
      {
        const std::lock_guard lock(guard_);
        if (lines_.contains(f.file)) continue;
      }
      with->measure_for(o_.budget_s, env::evaluator_options{}.precision);
      const auto a = measured(*with, f, "usual");
      // The interval is never narrow enough: it measures for as long as it may.
      with->measure_for(o_.long_s, 0);
      const auto b = a ? measured(*with, f, "long") : std::nullopt;
      if (!b) continue;
      agreement_line l{f.file, f.form, with->environment(), o_.long_s, o_.budget_s};
      l.call_us = static_cast<double>(b->time->ref_ns[3]) / 1000;
      l.usual = static_cast<double>(a->time->log_ratio_e9[1]) * 1e-9;
      l.long_one = static_cast<double>(b->time->log_ratio_e9[1]) * 1e-9;
      l.low = static_cast<double>(a->time->log_ratio_e9[0]) * 1e-9;
      l.high = static_cast<double>(a->time->log_ratio_e9[2]) * 1e-9;
      l.usual_pairs = a->time->windows;
      l.long_pairs = b->time->windows;
      keep(l);
      static const bool always = std::getenv("QUERN_BENCH_CLOCKS") != nullptr;
      if (always || std::abs(l.difference()) > most_difference) {
        print_clocks("usual", *a);
        print_clocks("long", *b);
      }
    }
  }

  static void print_clocks(const char* how, const env::verdict& v) {
    const auto ratio = [&](int i) {
      return std::exp(static_cast<double>(v.time->log_ratio_e9[i]) * 1e-9);
    };
    fmt::print("     {}: x{:.4f} to x{:.4f}\n", how, ratio(0), ratio(2));
    for (const auto& check : v.checks)
      if (check.name == "clocks") fmt::print("       {}\n", check.detail);
  }

  void keep(const agreement_line& l) {
    const std::lock_guard lock(guard_);
    print(l);
    lines_.emplace(l.file, l);
    if (o_.out.empty()) return;
    std::ofstream file(o_.out, std::ios::app);
    file << base::dump(to_json(l)) << '\n';
  }

  static void print(const agreement_line& l) {
    fmt::print(
        "{} {:<46} {:<11} baseline {:8.1f} us  x{:.4f} ({} pairs)  x{:.4f} ({} pairs, {:g} "
        "s)  {:+.2f} %{}\n",
        l.agrees() ? "  " : "**", l.file, l.form, l.call_us, std::exp(l.usual), l.usual_pairs,
        std::exp(l.long_one), l.long_pairs, l.long_s, 100 * l.difference(),
        l.sure() ? ""
                 : fmt::format(", states {:+.1f} to {:+.1f} %", 100 * std::expm1(l.low - l.usual),
                               100 * std::expm1(l.high - l.usual)));
  }

  int report() {
    std::vector<double> differences;
    int within = 0;
    for (const auto& f : kernels_)
      if (const auto at = lines_.find(f.file); at != lines_.end()) {
        differences.push_back(std::abs(at->second.difference()));
        within += at->second.agrees() ? 1 : 0;
      }
    const auto n = static_cast<std::int64_t>(differences.size());
    figure_table table;
    // Without a file this run's share is all there is.
    const auto wanted = o_.out.empty() ? static_cast<double>(to_ - std::min(from_, to_))
                                       : static_cast<double>(o_.kernels);
    table.at_least("kernels compared", static_cast<double>(n), wanted, "", n);
    table.at_most("largest difference to the long measurement",
                  n == 0 ? 0 : 100 * *std::max_element(differences.begin(), differences.end()), 1,
                  "%", n);
    table.at_least("within 1 %", n == 0 ? 0 : 100.0 * within / static_cast<double>(n), 100, "%", n);
    if (n < o_.kernels && !o_.out.empty())
      fmt::print("{} of {} kernels: the same command with other --from and --to goes on\n", n,
                 o_.kernels);
    return table.print() == 0 ? 0 : 1;
  }

  const gpu_bench_options& o_;
  std::vector<candidate_file> kernels_;
  std::size_t from_ = 0, to_ = 0;
  std::atomic<std::size_t> next_{0};
  std::mutex guard_;
  bool read_ = false;
  std::map<std::string, agreement_line> lines_;  ///< by file
};

}  // namespace

int bench_agreement(const gpu_bench_options& o) {
  return agreement_run(o).run();
}

}  // namespace quern::tools
