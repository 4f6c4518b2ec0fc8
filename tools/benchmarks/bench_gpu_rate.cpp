// bench_gpu rate: distinct candidates an hour, and where the time goes. Re-checks of large claims
// are left out: in a run they are jobs of their own, on another device where there is one. The
// first candidate is judged before the clock starts: the device waits for its compiler, which in a
// run works ahead of the evaluations all the time.
#include <array>
#include <cstdio>
#include <map>

#include <fmt/format.h>

#include "base/clock.hpp"
#include "tools/benchmarks/bench_gpu.hpp"
#include "tools/benchmarks/bench_gpu_figures.hpp"
#include "tools/stage_table.hpp"

namespace quern::tools {

int bench_rate(const gpu_bench_options& given) {
  if (given.gpus.size() > 1) return bench_devices(given);
  gpu_bench_options o = given;
  if (o.suite.empty()) o.suite = "cuda_quick";
  auto files = honest_files(o);
  // The suite allows no libraries; cuBLAS takes a second to make its handle.
  std::erase_if(files, [](const candidate_file& f) {
    return f.request.policy && f.request.policy->library_calls;
  });
  const auto with = open_evaluator(o);
  std::vector<env::evaluation_request> requests;
  for (int round = 0; round < o.rounds; ++round)
    for (const auto& f : files) {
      auto r = f.request;
      r.source = marked_source(r.source, fmt::format("round_{}", round));
      r.seed = requests.size();
      requests.push_back(std::move(r));
    }
  for (const auto& f : files) {
    auto r = f.request;
    r.verify_only = true;
    with->evaluate(r);
  }
  env::stage_seconds before;
  env::device_seconds device_before;
  std::array<double, env::gpu_part_names.size()> parts_before{};
  std::map<std::string, int> kinds;
  steady_rate rate;
  const base::steady_clock clock;
  const auto begun = clock.now_ns();
  const auto since_begun_s = [&] { return static_cast<double>(clock.now_ns() - begun) * 1e-9; };
  double first_s = 0;
  {
    build_ahead ahead(*with, requests, o.threads);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      ahead.now_at(i);
      const auto v = with->evaluate(requests[i]);
      const bool first = !rate.has_begun();
      rate.judged(since_begun_s(), with->device_time().measuring, v.kind);
      ++kinds[short_verdict(v)];
      if (v.kind != env::verdict_kind::ok)
        fmt::print("** {}: {} {}\n", files[i % files.size()].file, short_verdict(v), v.detail);
      if (!first) continue;
      first_s = since_begun_s();
      before = with->stages();
      device_before = with->device_time();
      for (std::size_t p = 0; p < parts_before.size(); ++p)
        parts_before[p] = with->parts().seconds(p);
    }
  }
  const rate_seen& seen = rate.seen();
  const auto after = with->stages();
  const auto device = with->device_time();
  const auto n = static_cast<double>(seen.candidates);
  fmt::print(
      "{} distinct candidates in {:.1f} s: {:.0f} an hour; measuring {:.0f} %, leased {:.0f} %; "
      "without re-checks of large claims, and without the first candidate, which took {:.1f} s "
      "with its compiler\n",
      seen.candidates, seen.seconds, seen.per_hour(), 100 * seen.measuring_s / seen.seconds,
      100 * (device.leased - device_before.leased) / seen.seconds, first_s);
  for (const auto& [kind, count] : kinds)
    fmt::print("  {:<24} {}\n", kind, count);
  each_stage(before, after, [&](const char* name, double value) {
    fmt::print("  {:<10} {:7.1f} ms an evaluation\n", name, 1000 * value / n);
  });
  fmt::print("by part (those in brackets run beside):\n");
  for (std::size_t p = 0; p < parts_before.size(); ++p)
    fmt::print("  {:<17} {:7.1f} ms an evaluation\n", env::gpu_part_names[p],
               1000 * (with->parts().seconds(p) - parts_before[p]) / n);
  if (o.form.empty()) fmt::print("a rate is wanted of one form: --form device_only, host_entry\n");
  return rate_figures(seen, o.form).print() == 0 ? 0 : 1;
}

}  // namespace quern::tools
