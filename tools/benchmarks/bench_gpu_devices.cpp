// bench_gpu rate --gpus 0,1,…: how much more work several devices of one host do than each alone.
// As for one device, re-checks of large claims are left out, and the clock starts once each has
// judged its first candidate.
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "tools/bench/bench_run.hpp"
#include "tools/benchmarks/bench_gpu.hpp"
#include "tools/benchmarks/bench_gpu_figures.hpp"

namespace quern::tools {
namespace {

/// Seconds that all processors of the host together were at work, by /proc/stat in ticks.
double host_busy_s() {
  std::ifstream file("/proc/stat");
  std::string name;
  double user = 0, nice = 0, system = 0, idle = 0, io = 0, irq = 0, soft = 0;
  file >> name >> user >> nice >> system >> idle >> io >> irq >> soft;
  return (user + nice + system + irq + soft) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

void tell(const rate_seen& seen, const std::map<std::string, int>& kinds,
          const std::vector<double>& parts_ms, double busy) {
  fmt::print("{} distinct candidates in {:.1f} s: {:.0f} an hour;", seen.candidates, seen.seconds,
             seen.per_hour());
  for (const auto& [kind, count] : kinds)
    fmt::print(" {} {}", count, kind);
  fmt::print("; {:.1f} processors of {} at work\n  ms an evaluation:", busy,
             sysconf(_SC_NPROCESSORS_ONLN));
  for (std::size_t p = 0; p < parts_ms.size(); ++p)
    if (parts_ms[p] >= 0.1) fmt::print(" {} {:.1f};", env::gpu_part_names[p], parts_ms[p]);
  fmt::print("\n");
}

class devices_bench {
 public:
  explicit devices_bench(const gpu_bench_options& o);
  /// Judges distinct candidates on the devices from `begin` to `end`, in the way that `quern bench`
  /// uses them, and says how fast. What was judged before is not judged again.
  rate_seen judge_on(std::size_t begin, std::size_t end, const std::string& name);

 private:
  /// Seconds of each part of an evaluation so far, added up over these devices.
  [[nodiscard]] std::vector<double> parts(std::size_t begin, std::size_t end) const;

  gpu_bench_options o_;
  std::vector<candidate_file> files_;
  std::vector<std::unique_ptr<env::cuda_evaluator>> opened_;
  int turn_ = 0;
};

devices_bench::devices_bench(const gpu_bench_options& o) : o_(o), files_(honest_files(o)) {
  for (const int gpu : o_.gpus) {
    opened_.push_back(open_evaluator(o_, gpu, o_.budget_s, -1));
    fmt::print("GPU {}: {}\n", gpu, opened_.back()->device_class());
  }
}

std::vector<double> devices_bench::parts(std::size_t begin, std::size_t end) const {
  std::vector<double> seconds(env::gpu_part_names.size(), 0);
  for (std::size_t d = begin; d < end; ++d)
    for (std::size_t p = 0; p < seconds.size(); ++p)
      seconds[p] += opened_[d]->parts().seconds(p);
  return seconds;
}

rate_seen devices_bench::judge_on(std::size_t begin, std::size_t end, const std::string& name) {
  std::vector<env::candidate_judge*> judges;
  for (std::size_t d = begin; d < end; ++d)
    judges.push_back(opened_[d].get());
  std::vector<env::evaluation_request> requests;
  std::vector<std::size_t> items;
  ++turn_;
  const std::size_t rounds = static_cast<std::size_t>(o_.rounds) * judges.size();
  for (const auto& f : files_)
    for (std::size_t round = 0; round < rounds; ++round) {
      auto r = f.request;
      r.source = marked_source(r.source, fmt::format("turn_{}_{}", turn_, round));
      r.seed = items.size();
      items.push_back(items.size());
      requests.push_back(std::move(r));
    }
  steady_rate rate(judges.size());
  std::map<std::string, int> kinds;
  // A device in trouble is not waited for: that would be no rate.
  bench_run_options options;
  options.compilers = o_.threads;
  options.tries = 1;
  options.recover_within = 0;
  const std::atomic<bool> stop = false;
  const base::steady_clock clock;
  const auto start = clock.now_ns();
  const auto parts_before = parts(begin, end);
  const double busy_before = host_busy_s();
  std::int64_t judged = 0;
  const auto given_up = run_bench(
      judges, requests, items, options, stop,
      [&](std::size_t i, const env::verdict& v, std::size_t judge) {
        ++kinds[short_verdict(v)];
        ++judged;
        rate.judged(static_cast<double>(clock.now_ns() - start) * 1e-9, 0, v.kind, judge);
        if (v.kind != env::verdict_kind::ok)
          fmt::print("** {}: {} {}\n", files_[i / rounds].file, short_verdict(v), v.detail);
        return true;
      });
  const double whole_s = static_cast<double>(clock.now_ns() - start) * 1e-9;
  for (const std::string& why : given_up)
    fmt::print("** a device was given up: {}\n", why);
  rate_seen seen = rate.seen();
  // Whoever has no verdict was not judged rightly.
  seen.wrong += static_cast<std::int64_t>(items.size()) - judged;
  auto parts_ms = parts(begin, end);
  for (std::size_t p = 0; p < parts_ms.size(); ++p)
    parts_ms[p] = 1000 * (parts_ms[p] - parts_before[p]) / std::max<double>(1, judged);
  fmt::print("{}: ", name);
  tell(seen, kinds, parts_ms, (host_busy_s() - busy_before) / whole_s);
  return seen;
}

}  // namespace

int bench_devices(const gpu_bench_options& given) {
  gpu_bench_options o = given;
  if (o.suite.empty()) o.suite = "cuda_quick";
  devices_bench bench(o);
  const std::size_t devices = o.gpus.size();
  // Whatever a device does once is done before anything counts.
  bench.judge_on(0, devices, "to warm up");
  // Some alone before all of them, some behind: a machine that became slower or faster meanwhile
  // shows.
  std::vector<rate_seen> alone;
  const auto one = [&](std::size_t d) {
    alone.push_back(bench.judge_on(d, d + 1, fmt::format("GPU {} alone", o.gpus[d])));
  };
  for (std::size_t d = 0; d < devices / 2; ++d)
    one(d);
  const auto all = bench.judge_on(0, devices, fmt::format("all {}", devices));
  for (std::size_t d = devices / 2; d < devices; ++d)
    one(d);
  fmt::print("without re-checks of large claims\n");
  return devices_figures(alone, all).print() == 0 ? 0 : 1;
}

}  // namespace quern::tools
