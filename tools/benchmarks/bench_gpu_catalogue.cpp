// bench_gpu honest and hostile: files of the catalogue, one after the other, and the false-accept
// rate of single ones.
#include <algorithm>
#include <cstdio>
#include <map>

#include <fmt/format.h>

#include "base/clock.hpp"
#include "tools/benchmarks/bench_gpu_judge.hpp"

namespace quern::tools {
namespace {

struct catalogue_counts {
  std::map<hostile_outcome, int> outcomes;
  std::map<std::string, int> ends;
  std::map<std::string, double> slow_ms;
};

/// How a candidate ended, in the words of the catalogue.
std::string end_of(const candidate_file& f, const env::verdict& v) {
  switch (v.kind) {
    case env::verdict_kind::ok:
      return f.legal ? "legal and ok" : "ok, at an honest kernel's speed or below";
    case env::verdict_kind::rejected_static:
    case env::verdict_kind::compile_error:
      return "refused before it ran";
    case env::verdict_kind::noisy:
    case env::verdict_kind::unconfirmed:
    case env::verdict_kind::infra_error:
    case env::verdict_kind::invalid_reference:
    case env::verdict_kind::unsupported:
      return "no verdict";
    default:
      return "caught";
  }
}

/// What attacks the compiler comes last and is begun first: it takes until the compiler's deadline.
std::vector<candidate_file> slow_ones_last(std::vector<candidate_file> list) {
  std::stable_partition(list.begin(), list.end(),
                        [](const candidate_file& f) { return f.compiles; });
  return list;
}

int judge_list(env::cuda_evaluator& with, const gpu_bench_options& o,
               const std::vector<candidate_file>& list) {
  std::vector<env::evaluation_request> requests;
  std::vector<std::size_t> first;
  for (const auto& f : list) {
    if (!f.compiles) first.push_back(requests.size());
    requests.push_back(f.request);
  }
  build_ahead ahead(with, requests, o.threads, std::move(first));
  const base::steady_clock clock;
  const auto start = clock.now_ns();
  const twin_speeds twins(with, o, list);
  catalogue_counts counts;
  int odd = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    ahead.now_at(i);
    const auto& f = list[i];
    const auto begun = clock.now_ns();
    const auto j = judge_file(with, f, f.request, twins);
    const double ms = static_cast<double>(clock.now_ns() - begun) * 1e-6;
    if (ms > 2000) counts.slow_ms[f.file] = ms;
    ++counts.outcomes[j.outcome];
    ++counts.ends[j.outcome == hostile_outcome::accepted ? "accepted" : end_of(f, j.judged)];
    const bool right = j.outcome == hostile_outcome::as_expected;
    odd += right ? 0 : 1;
    fmt::print("{} {:<46} {:<11} {:6.0f} ms  {}{}{}{}\n", right ? "  " : "**", f.file, f.form, ms,
               short_verdict(j.judged), times_text(j),
               j.outcome == hostile_outcome::as_expected ? "" : "  | " + name_of(j.outcome) + ": ",
               j.outcome == hostile_outcome::as_expected ? "" : j.judged.detail.substr(0, 400));
  }
  if (!counts.slow_ms.empty()) {
    fmt::print("   longest:");
    for (const auto& [file, ms] : counts.slow_ms)
      fmt::print(" {} {:.1f} s;", file, ms / 1000);
    fmt::print("\n");
  }
  for (const auto& [end, n] : counts.ends)
    fmt::print("   {:4} {}\n", n, end);
  fmt::print("{} candidates in {:.1f} s", list.size(),
             static_cast<double>(clock.now_ns() - start) * 1e-9);
  for (const auto& [outcome, n] : counts.outcomes)
    fmt::print(", {} {}", n, name_of(outcome));
  fmt::print("; {} not right\n", odd);
  return odd;
}

// ---- the false-accept rate ----

struct try_counts {
  int tries = 0, accepted = 0, undecided = 0;
  std::map<std::string, int> kinds;

  [[nodiscard]] int decided() const { return tries - undecided; }
  /// A rate of nothing says nothing: it is missed.
  [[nodiscard]] bool met() const { return accepted == 0 && decided() > 0; }
};

void print_rate(const std::string& name, const std::string& form, const try_counts& c) {
  std::string kinds;
  for (const auto& [kind, n] : c.kinds)
    kinds += fmt::format(", {} {}", n, kind);
  fmt::print("{} {:<40} {:<11} accepted {} of {}: rate at most {:.3f} % (95 %){}\n",
             c.met() ? "  " : "**", name, form, c.accepted, c.decided(),
             100 * rate_upper_bound(c.accepted, c.decided()), kinds);
}

/// How many files were accepted, or have no rate at all; one where there is no file.
int try_many(env::cuda_evaluator& with, const gpu_bench_options& o,
             const std::vector<candidate_file>& list) {
  const twin_speeds twins(with, o, list);
  try_counts all;
  int missed = 0;
  for (const auto& f : list) {
    if (f.legal && f.twin.empty()) continue;
    std::vector<env::evaluation_request> requests;
    for (int i = 0; i < o.repeat; ++i) {
      auto r = f.request;
      r.source = marked_source(r.source, fmt::format("try_{}", i));
      r.seed = static_cast<std::uint64_t>(i);
      requests.push_back(std::move(r));
    }
    build_ahead ahead(with, requests, o.threads);
    try_counts mine;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      ahead.now_at(i);
      const auto j = judge_file(with, f, requests[i], twins);
      ++mine.tries;
      ++mine.kinds[short_verdict(j.judged)];
      mine.accepted += j.outcome == hostile_outcome::accepted ? 1 : 0;
      mine.undecided +=
          j.outcome == hostile_outcome::undecided || j.outcome == hostile_outcome::no_twin ? 1 : 0;
      if (j.outcome == hostile_outcome::accepted)
        fmt::print("** try {} of {}: {}{}\n", i, f.file, short_verdict(j.judged), times_text(j));
    }
    print_rate(f.file, f.form, mine);
    missed += mine.met() ? 0 : 1;
    all.tries += mine.tries;
    all.accepted += mine.accepted;
    all.undecided += mine.undecided;
  }
  print_rate("all of them", "", all);
  return all.met() ? missed : std::max(missed, 1);
}

}  // namespace

int bench_honest(const gpu_bench_options& o) {
  auto files = honest_files(o);
  if (o.host_entry) files = as_host_entry(std::move(files));
  const auto with = open_evaluator(o);
  return judge_list(*with, o, files) == 0 ? 0 : 1;
}

int bench_hostile(const gpu_bench_options& o) {
  auto files = slow_ones_last(hostile_files(o));
  if (o.host_entry) files = as_host_entry(std::move(files));
  const auto with = open_evaluator(o);
  if (o.repeat > 1) return try_many(*with, o, files) == 0 ? 0 : 1;
  return judge_list(*with, o, files) == 0 ? 0 : 1;
}

}  // namespace quern::tools
