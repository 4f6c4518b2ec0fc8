// bench_pytorch rate: evaluations an hour of distinct candidates whose first builds count, where
// each second goes, and KernelBench's own evaluator beside.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>

#include <fmt/format.h>

#include "base/json.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "env/lanes/pytorch/gpu/pytorch_device_evaluator.hpp"
#include "env/measure/stats.hpp"
#include "tools/benchmarks/bench_gpu_figures.hpp"
#include "tools/benchmarks/bench_pytorch/held_judge.hpp"
#include "tools/benchmarks/bench_pytorch/kernelbench_beside.hpp"
#include "tools/benchmarks/bench_pytorch/module_files.hpp"
#include "tools/benchmarks/bench_pytorch/rate_list.hpp"
#include "tools/stage_table.hpp"

namespace quern::tools {
namespace {

constexpr double wanted_an_hour = 2000, wanted_lease_s = 1.2, wanted_ready = 95, wanted_ratio = 20;
constexpr double least_rated = 60;
/// Of one evaluation by KernelBench's evaluator; more than that is not begun at the end of a part.
constexpr double usual_kernelbench_s = 90;

struct rated_run {
  std::size_t judged = 0;
  bool whole = true;
  double seconds = 0;
  std::vector<double> held_s, built_s;
  env::stage_seconds stages;             ///< of all evaluators
  std::vector<env::step_seconds> steps;  ///< of each evaluation on a GPU
  double waited_s = 0;                   ///< for the device, by one that another one had
  std::optional<double> ready_share;
  std::map<std::string, int> kinds;  ///< verdicts, of honest modules and of folders apart
  std::int64_t honest = 0;           ///< honest modules among those that were judged
  std::int64_t wronged = 0;          ///< honest ones that are neither `ok` nor `noisy`
  std::int64_t failed = 0;           ///< `infra_error`: fast, and no evaluation of anything

  [[nodiscard]] double an_hour() const {
    return seconds > 0 ? 3600 * static_cast<double>(judged) / seconds : 0;
  }
};

/// Evaluators on one device, whose caches are empty, and what they noted.
struct opened_evaluators {
  std::vector<std::unique_ptr<env::candidate_judge>> judges;
  std::vector<std::unique_ptr<held_judge>> held;
};

base::expected<opened_evaluators> open_evaluators(const pytorch_bench_options& o) {
  opened_evaluators all;
  for (int i = 0; i < o.evaluators; ++i) {
    QUERN_TRY(auto judge, open_module_judge(o));
    const auto* device = dynamic_cast<const env::pytorch_device_evaluator*>(judge.get());
    all.held.push_back(
        std::make_unique<held_judge>(*judge, device == nullptr ? nullptr : &device->steps()));
    all.judges.push_back(std::move(judge));
  }
  return all;
}

void add_stages(env::stage_seconds& to, const env::stage_seconds& one, double sign) {
  using of_stage = double env::stage_seconds::*;
  for (const of_stage stage :
       {&env::stage_seconds::screen, &env::stage_seconds::compile, &env::stage_seconds::start,
        &env::stage_seconds::reference, &env::stage_seconds::verify, &env::stage_seconds::probe,
        &env::stage_seconds::time, &env::stage_seconds::reverify})
    to.*stage += sign * one.*stage;
}

/// Adds the seconds that all evaluators have noted so far, times `sign`.
void note_seconds(const opened_evaluators& from, double sign, rated_run& run) {
  for (const auto& judge : from.judges) {
    add_stages(run.stages, judge->stages(), sign);
    run.waited_s += sign * judge->waited_for_device_s();
  }
}

/// What all evaluators together have to tell.
void take_notes(const opened_evaluators& from, rated_run& run) {
  note_seconds(from, 1, run);
  std::vector<double> ready;
  for (std::size_t i = 0; i < from.judges.size(); ++i) {
    const auto& held = from.held[i]->held_s();
    run.held_s.insert(run.held_s.end(), held.begin(), held.end());
    const auto& built = from.held[i]->built_s();
    run.built_s.insert(run.built_s.end(), built.begin(), built.end());
    const auto& steps = from.held[i]->steps();
    run.steps.insert(run.steps.end(), steps.begin(), steps.end());
    if (const auto* device =
            dynamic_cast<const env::pytorch_device_evaluator*>(from.judges[i].get()))
      ready.push_back(device->ready_share());
  }
  if (!ready.empty()) run.ready_share = *std::min_element(ready.begin(), ready.end());
}

std::string verdict_line(const std::string& name, const env::verdict& v) {
  base::json line{
      {"name", name}, {"kind", env::name_of(v.kind)}, {"reason", v.reason}, {"detail", v.detail}};
  if (v.speedup_e2) line["speedup"] = static_cast<double>(*v.speedup_e2) / 100;
  if (v.time && !v.time->ref_ns.empty())
    line["ref_us"] = static_cast<double>(v.time->ref_ns.front()) / 1000;
  return base::dump(line) + "\n";
}

/// Of a first candidate: nothing that another one asks for.
constexpr const char* first_extension =
    "\nfrom torch.utils.cpp_extension import load_inline\n"
    "load_inline(name='quern_first', cpp_sources='int quern_first() { return 1; }', "
    "functions=['quern_first'])\n";

/// A first candidate, without a clock: what starts with an evaluator, once, has started then, the
/// warm Python that learns builds and the object that is linked to each of them among it.
base::status wait_until_warm(const pytorch_bench_options& o, const opened_evaluators& opened) {
  QUERN_TRY(const auto honest, read_honest_modules(o.source));
  const auto plain = std::ranges::find(honest, "relu.clamp", &honest_module::name);
  if (plain == honest.end())
    return base::fail(base::errc::not_found, "no relu.clamp among the honest modules of {}",
                      o.source);
  for (const auto& judge : opened.judges) {
    if (auto* device = dynamic_cast<env::pytorch_device_evaluator*>(judge.get()))
      device->wait_until_warm();
    env::evaluation_request request;
    request.subject = plain->subject;
    request.source = plain->source + first_extension;
    request.verify_only = true;
    judge->compile_ahead(request);
    if (const auto v = judge->evaluate(request); v.kind != env::verdict_kind::ok)
      return base::fail(base::errc::unavailable, "the evaluator does not work: {} {}", kind_text(v),
                        v.detail);
  }
  return {};
}

/// The clock starts when the evaluators have answered once.
base::expected<rated_run> run_rate(const pytorch_bench_options& o,
                                   const std::vector<rated_module>& all,
                                   const std::vector<std::size_t>& places, const bench_part& part) {
  QUERN_TRY(const auto opened, open_evaluators(o));
  QUERN_CHECK(wait_until_warm(o, opened));
  rated_run run;
  note_seconds(opened, -1, run);
  std::vector<env::candidate_judge*> with;
  for (const auto& one : opened.held)
    with.push_back(one.get());
  std::vector<env::evaluation_request> requests;
  for (const rated_module& one : all)
    requests.push_back(rated_request(one, o.seed));
  std::ofstream verdicts;
  if (!o.verdicts.empty()) {
    verdicts.open(o.verdicts);
    if (!verdicts)
      return base::fail(base::errc::io,
                        "--verdicts: {} cannot be written: name a file in a folder that exists",
                        o.verdicts);
  }
  const double begun = part.seconds();
  run.whole = judge_in_turn(
      with, requests, places, o, part, [&](std::size_t place, const env::verdict& v, double s) {
        ++run.judged;
        run.failed += v.kind == env::verdict_kind::infra_error ? 1 : 0;
        ++run.kinds[(all[place].is_honest ? "honest  " : "folders ") + kind_text(v)];
        if (all[place].is_honest) {
          ++run.honest;
          run.wronged += v.kind != env::verdict_kind::ok && v.kind != env::verdict_kind::noisy;
        }
        run.seconds = part.seconds() - begun;
        if (verdicts.is_open()) verdicts << verdict_line(all[place].name, v) << std::flush;
        fmt::print("   {:<44} {:5.2f} s  {} {}  {}\n", all[place].name, s, kind_text(v),
                   speed_text(v),
                   v.kind == env::verdict_kind::ok ? "" : base::one_line(v.detail).substr(0, 200));
      });
  take_notes(opened, run);
  return run;
}

/// The mean says where the time of all goes, the median what most evaluations wait for.
void print_steps(const rated_run& run) {
  std::map<std::string, std::vector<double>> of_step;
  for (const env::step_seconds& one : run.steps)
    for (const auto& [step, seconds] : one)
      of_step[step].push_back(seconds);
  fmt::print("   of that, by steps, of those that come to it:   mean   median      P90   ms\n");
  for (const auto& [step, seconds] : of_step)
    fmt::print("   {:<44} {:8.1f} {:8.1f} {:8.1f}\n", step,
               1000 * std::accumulate(seconds.begin(), seconds.end(), 0.0) /
                   static_cast<double>(seconds.size()),
               1000 * env::median_of(seconds), 1000 * env::quantile_of(seconds, 0.9));
}

/// Of each evaluation, and the share of the time of all.
void print_stages(const rated_run& run) {
  const auto line = [&](const char* name, double seconds) {
    fmt::print("   {:<38} {:8.1f} ms an evaluation, {:5.1f} %\n", name,
               1000 * seconds / static_cast<double>(std::max<std::size_t>(1, run.judged)),
               run.seconds > 0 ? 100 * seconds / run.seconds : 0);
  };
  double in_stages = 0;
  each_stage({}, run.stages, [&](const char* name, double seconds) {
    in_stages += seconds;
    line(name, seconds);
  });
  const double held = std::accumulate(run.held_s.begin(), run.held_s.end(), 0.0);
  line("with the device, in no stage", held + run.stages.compile - in_stages);
  line("waits for the device", run.waited_s);
  line("the device is held", held);
  print_steps(run);
}

void print_builds(const rated_run& run) {
  if (run.built_s.empty()) return;
  fmt::print("   built ahead of their turn: {}, each in {:.1f} s (median), {:.1f} s (P90)\n",
             run.built_s.size(), env::median_of(run.built_s), env::quantile_of(run.built_s, 0.9));
}

void print_kinds(const rated_run& run) {
  for (const auto& [kind, count] : run.kinds)
    fmt::print("   {:<34} {}\n", kind, count);
}

/// `count` of those with inline CUDA, drawn by the seed; all where there are fewer.
std::vector<std::size_t> draw_cuda(const std::vector<rated_module>& all, int count,
                                   std::uint64_t seed) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].has_cuda) places.push_back(i);
  base::random_stream random(seed, "kernelbench beside");
  for (std::size_t i = places.size(); i > 1; --i)
    std::swap(places[i - 1], places[random.below(i)]);
  places.resize(std::min(places.size(), static_cast<std::size_t>(count)));
  return places;
}

/// The seconds of each candidate by KernelBench's evaluator, `o.at_once` of them side by side.
base::expected<std::vector<double>> run_theirs(const pytorch_bench_options& o,
                                               const std::vector<rated_module>& all,
                                               const std::vector<std::size_t>& places,
                                               const bench_part& part) {
  std::mutex guard;  // of what follows
  std::size_t next = 0;
  std::vector<double> seconds;
  std::optional<base::error> failed;
  const auto work = [&] {
    for (;;) {
      std::size_t place = 0;
      {
        const std::lock_guard lock(guard);
        if (next == places.size() || failed || part.is_over(usual_kernelbench_s)) return;
        place = places[next++];
      }
      const auto ran =
          evaluate_by_kernelbench(o, *all[place].subject, all[place].source, part.seconds_left());
      const std::lock_guard lock(guard);
      if (!ran) {
        failed = ran.error();
        return;
      }
      fmt::print("   KernelBench: {:<31} {:6.1f} s  {}\n", all[place].name, ran->seconds,
                 ran->outcome);
      seconds.push_back(ran->seconds);
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < o.at_once; ++i)
      threads.emplace_back(work);
  }
  if (failed) return tl::make_unexpected(*failed);
  return seconds;
}

/// Both on the same candidates of this part; adds the ratio to the table.
base::status rate_beside(const pytorch_bench_options& o, const std::vector<rated_module>& all,
                         const bench_part& part, figure_table& table) {
  const auto drawn = draw_cuda(all, o.beside, o.seed);
  std::vector<std::size_t> mine;
  for (const std::size_t i : part.places(drawn.size()))
    mine.push_back(drawn[i]);
  fmt::print("beside KernelBench: {} of {} drawn by seed {} of those with inline CUDA\n",
             mine.size(), drawn.size(), o.seed);
  for (const std::size_t i : mine)
    fmt::print("   {}\n", all[i].name);
  if (mine.empty())
    return base::fail(base::errc::invalid_argument,
                      "no candidate with inline CUDA is in this part: say --part K/N with a "
                      "smaller N, or a folder that has some");
  QUERN_TRY(const auto ours, run_rate(o, all, mine, part));
  print_builds(ours);
  print_steps(ours);
  QUERN_TRY(const auto by_theirs, run_theirs(o, all, mine, part));
  const auto theirs = static_cast<std::int64_t>(by_theirs.size());
  const double theirs_s = std::accumulate(by_theirs.begin(), by_theirs.end(), 0.0);
  const double an_hour = theirs_s > 0 ? 3600 * static_cast<double>(theirs) / theirs_s : 0;
  fmt::print(
      "beside: ours {:.0f} an hour ({} in {:.1f} s), KernelBench's {:.1f} ({} in {:.1f} s)\n",
      ours.an_hour(), ours.judged, ours.seconds, an_hour, theirs, theirs_s);
  const bool both = theirs == static_cast<std::int64_t>(mine.size()) && ours.whole;
  table.at_least("evaluations an hour by KernelBench's on the same candidates",
                 an_hour > 0 ? ours.an_hour() / an_hour : 0, wanted_ratio, "", both ? theirs : 0);
  return {};
}

void add_rate(const rated_run& run, std::size_t candidates, figure_table& table) {
  const auto n = static_cast<std::int64_t>(run.judged);
  table.at_least("distinct candidates, all parts", static_cast<double>(candidates), least_rated, "",
                 1);
  table.at_least("evaluations an hour, first builds included", run.an_hour(), wanted_an_hour, "",
                 n);
  table.at_most("median of what an evaluation holds the device",
                run.held_s.empty() ? 0 : env::median_of(run.held_s), wanted_lease_s, "s", n);
  table.at_most("evaluations that failed by the host", static_cast<double>(run.failed), 0, "", n);
  if (run.honest > 0)
    table.at_most("honest modules that are neither ok nor noisy", static_cast<double>(run.wronged),
                  0, "", run.honest);
  if (run.ready_share)
    table.at_least("candidates' processes that stood ready", 100 * *run.ready_share, wanted_ready,
                   "%", n);
}

base::expected<bool> rate_all(const pytorch_bench_options& o) {
  const bench_part part(o);
  QUERN_TRY(const auto all, read_rated_modules(o));
  const auto count_of = [&](auto has) { return std::count_if(all.begin(), all.end(), has); };
  fmt::print("{} candidates: {} inline CUDA, {} Triton\n", all.size(),
             count_of([](const rated_module& one) { return one.has_cuda; }),
             count_of([](const rated_module& one) { return one.has_triton; }));
  figure_table table;
  bool whole = true;
  if (!o.beside_only) {
    QUERN_TRY(const auto run, run_rate(o, all, part.places(all.size()), part));
    whole = run.whole;
    fmt::print(
        "rate   {:.0f} an hour by {} evaluators: {} in {:.1f} s; the device held: median {:.2f} s, "
        "P90 {:.2f} s\n",
        run.an_hour(), o.evaluators, run.judged, run.seconds,
        run.held_s.empty() ? 0 : env::median_of(run.held_s),
        run.held_s.empty() ? 0 : env::quantile_of(run.held_s, 0.9));
    print_stages(run);
    print_builds(run);
    print_kinds(run);
    add_rate(run, all.size(), table);
  }
  if (o.beside > 0) QUERN_CHECK(rate_beside(o, all, part, table));
  return table.print() == 0 && whole;
}

}  // namespace

int bench_rate_of_modules(const pytorch_bench_options& o) {
  const auto met = rate_all(o);
  return !met ? bench_failed(met.error()) : *met ? 0 : 1;
}

}  // namespace quern::tools
