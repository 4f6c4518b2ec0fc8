// bench_gpu rate --gpus 0,1,…: how much more work several devices of one host do than one.
#include <cstdio>
#include <map>

#include <fmt/format.h>

#include "base/clock.hpp"
#include "tools/bench/bench_run.hpp"
#include "tools/bench_gpu.hpp"

namespace quern::tools {
namespace {

/// Of the work of one device, for each further one: what a host with two has to do.
constexpr double wanted_of_two = 1.9;

struct stretch_of_work {
  double per_hour = 0;
  std::map<std::string, int> kinds;
};

/// Distinct candidates that these devices judge, in the way that `quern bench` uses them.
stretch_of_work judge_on(const gpu_bench_options& o, const std::vector<candidate_file>& files,
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
  stretch_of_work result;
  const std::atomic<bool> stop = false;
  const base::steady_clock clock;
  const auto start = clock.now_ns();
  const auto given_up = run_bench(judges, requests, items, {.compilers = o.threads, .tries = 1},
                                  stop, [&](std::size_t i, const env::verdict& v) {
                                    ++result.kinds[short_verdict(v)];
                                    if (v.kind != env::verdict_kind::ok)
                                      fmt::print("** {}: {} {}\n", files[i % files.size()].file,
                                                 short_verdict(v), v.detail);
                                    return true;
                                  });
  const double seconds = static_cast<double>(clock.now_ns() - start) * 1e-9;
  for (const std::string& why : given_up)
    fmt::print("** a device was given up: {}\n", why);
  result.per_hour = 3600 * static_cast<double>(items.size()) / seconds;
  fmt::print("{} device{}: {} distinct candidates in {:.1f} s: {:.0f} an hour;", judges.size(),
             judges.size() == 1 ? "" : "s", items.size(), seconds, result.per_hour);
  for (const auto& [kind, count] : result.kinds)
    fmt::print(" {} {}", count, kind);
  fmt::print("\n");
  return result;
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
  const double one = (first.per_hour + again.per_hour) / 2;
  const double ratio = all.per_hour / one;
  const double wanted = 1 + (wanted_of_two - 1) * static_cast<double>(judges.size() - 1);
  fmt::print("{} devices do {:.2f} times the work of one (wanted: {:.2f}): {}\n", judges.size(),
             ratio, wanted, ratio >= wanted ? "reached" : "MISSED");
  return ratio >= wanted ? 0 : 1;
}

}  // namespace quern::tools
