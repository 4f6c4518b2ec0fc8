// bench_gpu rate --gpus 0,1,…: how much more work several devices of one host do than one. As for
// one device, re-checks of large claims are left out.
#include <cstdio>
#include <map>

#include <fmt/format.h>

#include "base/clock.hpp"
#include "tools/bench/bench_run.hpp"
#include "tools/bench_gpu.hpp"
#include "tools/bench_gpu_figures.hpp"

namespace quern::tools {
namespace {

/// Distinct candidates that these devices judge, in the way that `quern bench` uses them.
rate_seen judge_on(const gpu_bench_options& o, const std::vector<candidate_file>& files,
                   std::span<env::candidate_judge* const> judges, const std::string& mark) {
  std::vector<env::evaluation_request> requests;
  std::vector<std::size_t> items;
  const std::size_t rounds = static_cast<std::size_t>(o.rounds) * judges.size();
  for (const auto& f : files)
    for (std::size_t round = 0; round < rounds; ++round) {
      auto r = f.request;
      r.source = marked_source(r.source, fmt::format("{}_{}", mark, round));
      r.seed = items.size();
      items.push_back(items.size());
      requests.push_back(std::move(r));
    }
  rate_seen seen;
  std::map<std::string, int> kinds;
  // A device in trouble is not waited for: that would be no rate.
  bench_run_options options;
  options.compilers = o.threads;
  options.tries = 1;
  options.recover_within = 0;
  const std::atomic<bool> stop = false;
  const base::steady_clock clock;
  const auto start = clock.now_ns();
  const auto given_up =
      run_bench(judges, requests, items, options, stop, [&](std::size_t i, const env::verdict& v) {
        ++kinds[short_verdict(v)];
        ++seen.candidates;
        if (v.kind == env::verdict_kind::ok) return true;
        ++seen.not_ok;
        fmt::print("** {}: {} {}\n", files[i / rounds].file, short_verdict(v), v.detail);
        return true;
      });
  seen.seconds = static_cast<double>(clock.now_ns() - start) * 1e-9;
  for (const std::string& why : given_up)
    fmt::print("** a device was given up: {}\n", why);
  // Whoever has no verdict was not judged rightly.
  seen.not_ok += static_cast<std::int64_t>(items.size()) - seen.candidates;
  fmt::print("{} device{}: {} distinct candidates in {:.1f} s: {:.0f} an hour;", judges.size(),
             judges.size() == 1 ? "" : "s", seen.candidates, seen.seconds, seen.per_hour());
  for (const auto& [kind, count] : kinds)
    fmt::print(" {} {}", count, kind);
  fmt::print("\n");
  return seen;
}

}  // namespace

int bench_devices(const gpu_bench_options& given) {
  gpu_bench_options o = given;
  if (o.suite.empty()) o.suite = "cuda_quick";
  const auto files = honest_files(o);
  std::vector<std::unique_ptr<env::gpu_evaluator>> opened;
  std::vector<env::candidate_judge*> judges;
  for (const int gpu : o.gpus) {
    opened.push_back(open_evaluator(o, gpu, o.budget_s, -1));
    judges.push_back(opened.back().get());
    fmt::print("GPU {}: {}\n", gpu, opened.back()->device_class());
  }
  // Tasks are prepared and everything is started on every device before anything counts.
  std::vector<std::thread> threads;
  for (auto* judge : judges)
    threads.emplace_back([&files, judge] {
      for (const auto& f : files) {
        auto r = f.request;
        r.verify_only = true;
        judge->evaluate(r);
      }
    });
  for (auto& t : threads)
    t.join();
  // One, all, one again: a machine that became slower or faster meanwhile shows.
  const auto first = judge_on(o, files, {judges.data(), 1}, "first");
  const auto all = judge_on(o, files, judges, "all");
  const auto again = judge_on(o, files, {judges.data(), 1}, "again");
  fmt::print("without re-checks of large claims\n");
  return devices_figures(first, again, all, judges.size()).print() == 0 ? 0 : 1;
}

}  // namespace quern::tools
