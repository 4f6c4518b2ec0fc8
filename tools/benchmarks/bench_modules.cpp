// What lane `pytorch` costs on a core, or on a GPU (--gpu). How soon a forked Python runs an
// operator of torch, one that stood ready and one that did not. What a candidate is called that is
// the reference. How many evaluations an hour, and in which stages they go.
//
//   bench_modules [--forks N] [--trials N] [--checks N] [--only TASK] [--budget-s S] [--ahead N]
//                 [--sandbox best_effort|required] [--gpu N] [--copies N]
//
// Ends with 1 where a bar is missed. The load of the machine is printed before and after.
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/program.hpp"
#include "base/text.hpp"
#include "env/gpu/device_context.hpp"
#include "env/judge/machine.hpp"
#include "env/lanes/pytorch/gpu/module_gpu.hpp"
#include "env/lanes/pytorch/gpu/pytorch_device_evaluator.hpp"
#include "env/lanes/pytorch/module_task.hpp"
#include "env/lanes/pytorch/process/python_zygote.hpp"
#include "env/lanes/pytorch/pytorch_evaluator.hpp"
#include "env/measure/stats.hpp"
#include "env/task/task_codec.hpp"
#include "tools/benchmarks/bench_modules_copies.hpp"
#include "tools/benchmarks/bench_modules_tasks.hpp"
#include "tools/cli/parse.hpp"
#include "tools/stage_table.hpp"

namespace quern::tools {
namespace {

constexpr double most_fork_ms = 50;             // median, to the first operator
constexpr double most_called_different = 0.02;  // of evaluations with a verdict
constexpr env::question_limits fork_limits{60, 120};

struct module_bench_options {
  int forks = 50;
  int trials = 100;
  int checks = 100;
  std::string only;
  std::string sandbox = "required";
  double budget_s = 0.5;
  int ahead = env::usual_children_ahead;
  std::optional<int> gpu;
  int copies = 0;
};

void print_load(const char* when) {
  const auto text = base::read_file("/proc/loadavg", 256);
  std::printf("load %s: %s\n", when, text ? base::one_line(*text).c_str() : "unknown");
  std::fflush(stdout);
}

// ---- forks

constexpr const char* without_operator = "class Model:\n    pass\n";
constexpr const char* with_operator =
    "import torch\n\n\nclass Model:\n    pass\n\n\n"
    "reached = float(torch.ones(64, 64).mul_(2).sum())\n"
    "if reached != 8192.0:\n    raise ValueError(reached)\n";

/// Milliseconds of the parts of forks, one entry a fork.
struct fork_times {
  std::vector<double> fork, answer, load, all;
};

base::status fork_once(env::python_zygote& zygote, const std::string& path, bool ready,
                       fork_times& into) {
  if (ready) {
    zygote.prefork(1);
    // Answered once it stands.
    QUERN_CHECK(zygote.ready_children());
  }
  const base::steady_clock clock;
  env::python_start how;
  how.read_only = {path};
  const auto begin = clock.now_ns();
  QUERN_TRY(auto child, zygote.fork(how));
  const auto forked = clock.now_ns();
  if (child.stood_ready() != ready)
    return base::fail(base::errc::unavailable, "a child {} ready before it was asked for",
                      ready ? "did not stand" : "stood");
  if (const auto opened = child.open(fork_limits); !opened)
    return base::fail(base::errc::unavailable, "a child's first answer: {}", opened.error().text);
  const auto answered = clock.now_ns();
  if (const auto loaded = child.link().load(path, fork_limits); !loaded)
    return base::fail(base::errc::unavailable, "loading {}: {}", path, loaded.error().text);
  const auto loaded = clock.now_ns();
  const auto add = [](std::vector<double>& to, std::int64_t ns) {
    to.push_back(static_cast<double>(ns) * 1e-6);
  };
  add(into.fork, forked - begin);
  add(into.answer, answered - forked);
  add(into.load, loaded - answered);
  add(into.all, loaded - begin);
  // Its end is not part of the next fork.
  (void)zygote.end(child);
  return {};
}

void print_part(const char* name, const std::vector<double>& ms) {
  std::printf("       %-34s median %6.1f ms  P90 %6.1f ms\n", name, env::median_of(ms),
              env::quantile_of(ms, 0.9));
}

void print_parts(const char* fork, const fork_times& times) {
  print_part(fork, times.fork);
  print_part("its first answer", times.answer);
  print_part("load of a module with operators", times.load);
}

/// Whether the bar is met.
base::expected<bool> bench_forks(env::sandbox_mode mode, int forks) {
  QUERN_TRY(auto zygote, env::python_zygote::start(mode));
  QUERN_TRY(const auto plain, env::write_module("plain.py", without_operator));
  QUERN_TRY(const auto working, env::write_module("working.py", with_operator));
  fork_times idle, on_demand, ready;
  // In turns, so that what else the machine does is the same for all.
  for (int i = 0; i < forks; ++i) {
    QUERN_CHECK(fork_once(zygote, plain.path.string(), false, idle));
    QUERN_CHECK(fork_once(zygote, working.path.string(), false, on_demand));
    QUERN_CHECK(fork_once(zygote, working.path.string(), true, ready));
  }
  const double median = env::median_of(on_demand.all);
  const bool met = median <= most_fork_ms;
  std::printf(
      "forks  %d, to the first operator of torch: median %.1f ms, P90 %.1f ms; wanted %.0f: %s\n",
      forks, median, env::quantile_of(on_demand.all, 0.9), most_fork_ms, met ? "met" : "missed");
  print_parts("fork and sandbox", on_demand);
  print_part("load of a module without operators", idle.load);
  std::printf(
      "ready  %d children that stood ready, from asking to the first operator: median %.1f ms, P90 "
      "%.1f ms; forked on demand %.1f ms\n",
      forks, env::median_of(ready.all), env::quantile_of(ready.all, 0.9), median);
  print_parts("the rest of the sandbox", ready);
  std::fflush(stdout);
  return met;
}

/// Seconds until so many children stand that have nothing but a context.
base::expected<double> make_contexts(env::python_zygote& zygote, int count) {
  const base::steady_clock clock;
  const auto begin = clock.now_ns();
  zygote.prefork(count);
  QUERN_TRY(const auto standing, zygote.ready_children());
  if (standing.size() != static_cast<std::size_t>(count))
    return base::fail(base::errc::unavailable, "{} of {} children stand ready", standing.size(),
                      count);
  const double seconds = static_cast<double>(clock.now_ns() - begin) * 1e-9;
  // Their ends, and the driver's work behind them, are not part of the next ones.
  for (int i = 0; i < count; ++i) {
    QUERN_TRY(auto child, zygote.fork({}));
    (void)zygote.end(child);
  }
  return seconds;
}

/// Whether the bars are met.
base::expected<bool> bench_contexts(env::sandbox_mode mode, int gpu, int times) {
  constexpr double most_one_s = 0.7, most_four_s = 1.3;
  QUERN_TRY(const auto facts, env::device_context::open(gpu));
  QUERN_TRY(auto access, env::gpu_sandbox_paths(facts->facts().bus_id));
  QUERN_TRY(auto zygote,
            env::python_zygote::start(
                mode, {std::move(access), base::program_folder() / "libquern_cuda.so"}));
  QUERN_CHECK(make_contexts(zygote, 1));  // libraries come from a cold disk
  std::vector<double> one, four;
  for (int i = 0; i < times; ++i) {
    QUERN_TRY(const double alone, make_contexts(zygote, 1));
    QUERN_TRY(const double together, make_contexts(zygote, 4));
    one.push_back(alone);
    four.push_back(together);
  }
  const bool met = env::median_of(one) <= most_one_s && env::median_of(four) <= most_four_s;
  std::printf(
      "ready  %d times: a child with a warm context median %.2f s, P90 %.2f s, wanted %.1f; four "
      "median %.2f s, P90 %.2f s, wanted %.1f: %s\n",
      times, env::median_of(one), env::quantile_of(one, 0.9), most_one_s, env::median_of(four),
      env::quantile_of(four, 0.9), most_four_s, met ? "met" : "missed");
  std::fflush(stdout);
  return met;
}

// ---- a candidate that is the reference

struct self_figures {
  int trials = 0, judged = 0, different = 0, noisy = 0, other = 0;
  std::vector<double> log_speedups, signed_log_speedups, calls_us;

  void operator+=(const self_figures& one) {
    trials += one.trials, judged += one.judged, different += one.different;
    noisy += one.noisy, other += one.other;
    log_speedups.insert(log_speedups.end(), one.log_speedups.begin(), one.log_speedups.end());
    signed_log_speedups.insert(signed_log_speedups.end(), one.signed_log_speedups.begin(),
                               one.signed_log_speedups.end());
  }
};

void add_verdict(self_figures& to, const env::verdict& v, const char* name) {
  ++to.trials;
  if (v.kind == env::verdict_kind::noisy) {
    if (to.noisy++ == 0)
      std::fprintf(stderr, "bench_modules: %s: %s\n", name, env::summary(v).c_str());
    return;
  }
  if (v.kind != env::verdict_kind::ok || !v.speedup_e2 || !v.time ||
      v.time->log_ratio_e9.size() != 3) {
    ++to.other;
    std::fprintf(stderr, "bench_modules: %s: %s\n", name, env::summary(v).c_str());
    return;
  }
  ++to.judged;
  to.different += *v.speedup_e2 != 100;
  const double log_speedup = static_cast<double>(v.time->log_ratio_e9[1]) * 1e-9;
  to.signed_log_speedups.push_back(log_speedup);
  to.log_speedups.push_back(std::abs(log_speedup));
  for (const std::int64_t ns : v.time->ref_ns)
    to.calls_us.push_back(static_cast<double>(ns) * 1e-3);
}

void print_self(const char* name, const self_figures& of) {
  std::printf(
      "       %-10s %3d evaluations  call %7.0f us  different from 1.00: %d of %d  noisy %d  other "
      "%d  |log speed-up| median %.4f, P99 %.4f, with its sign %+.4f\n",
      name, of.trials, env::median_of(of.calls_us), of.different, of.judged, of.noisy, of.other,
      env::median_of(of.log_speedups), env::quantile_of(of.log_speedups, 0.99),
      env::median_of(of.signed_log_speedups));
  std::fflush(stdout);
}

base::expected<std::unique_ptr<env::candidate_judge>> open_judge(
    const module_bench_options& options) {
  env::pytorch_evaluator_options opening;
  opening.time_budget_s = options.budget_s;
  opening.sandbox_required = options.sandbox == "required";
  opening.children_ahead = options.ahead;
  if (!options.gpu) {
    QUERN_TRY(auto judge, env::pytorch_evaluator::open(std::move(opening)));
    return judge;
  }
  opening.gpu = *options.gpu;
  opening.on_gpu = true;
  QUERN_TRY(auto judge, env::pytorch_device_evaluator::open(std::move(opening)));
  return judge;
}

/// Whether the bar is met, and no honest candidate was called anything but right or noisy.
base::expected<bool> bench_against_itself(const module_bench_options& options) {
  QUERN_TRY(const auto judge, open_judge(options));
  const bool on_gpu = options.gpu.has_value();
  std::vector<self_module> modules;
  std::vector<std::shared_ptr<const env::task>> tasks;
  for (const self_module& one : self_modules) {
    if (!options.only.empty() && options.only != one.name) continue;
    QUERN_TRY(auto task, env::parse_task(self_task(one, on_gpu)));
    modules.push_back(one);
    tasks.push_back(std::make_shared<const env::task>(std::move(task)));
  }
  const auto request_of = [&](std::size_t which, int trial, bool timed) {
    env::evaluation_request request;
    request.subject = tasks[which];
    request.source = self_candidate(modules[which], trial, on_gpu);
    request.seed = static_cast<std::uint64_t>(trial + 1);
    request.verify_only = !timed;
    return request;
  };
  // A task is prepared once in a run, not once an evaluation.
  for (std::size_t i = 0; i < tasks.size(); ++i)
    judge->evaluate(request_of(i, -1, false));

  std::vector<self_figures> each(tasks.size());
  self_figures all;
  const env::stage_seconds before = judge->stages();
  const base::steady_clock clock;
  const auto begin = clock.now_ns();
  for (int trial = 0; trial < options.trials; ++trial) {
    const std::size_t which = static_cast<std::size_t>(trial) % tasks.size();
    const auto v = judge->evaluate(request_of(which, trial, true));
    add_verdict(each[which], v, modules[which].name);
  }
  const double seconds = static_cast<double>(clock.now_ns() - begin) * 1e-9;
  const env::stage_seconds after = judge->stages();

  for (const self_figures& one : each)
    all += one;
  const double share = all.judged > 0 ? static_cast<double>(all.different) / all.judged : 1;
  const bool met = share <= most_called_different && all.other == 0;
  std::printf(
      "itself %d evaluations: called different from 1.00 %.1f %% of %d with a verdict, wanted %.0f "
      "%%: %s; noisy %.1f %%; P99 of |log speed-up| %.4f\n",
      all.trials, 100 * share, all.judged, 100 * most_called_different, met ? "met" : "missed",
      100.0 * all.noisy / all.trials, env::quantile_of(all.log_speedups, 0.99));
  for (std::size_t i = 0; i < tasks.size(); ++i)
    print_self(modules[i].name, each[i]);
  std::printf("rate   %.0f evaluations an hour on one %s: %.1f s for %d\n",
              3600 * all.trials / seconds, on_gpu ? "GPU" : "core", seconds, all.trials);
  if (const auto* device = dynamic_cast<const env::pytorch_device_evaluator*>(judge.get()))
    std::printf("ready  a process stood ready in %.1f %% of evaluations, wanted 95 %%\n",
                100 * device->ready_share());
  each_stage(before, after, [&](const char* name, double value) {
    std::printf("       %-10s %6.1f ms an evaluation\n", name, 1000 * value / all.trials);
  });
  if (options.checks > 0) {
    const env::stage_seconds checking = judge->stages();
    std::vector<double> all_ms;
    for (int i = 0; i < options.checks; ++i) {
      const auto from = clock.now_ns();
      judge->evaluate(
          request_of(static_cast<std::size_t>(i) % tasks.size(), options.trials + i, false));
      all_ms.push_back(static_cast<double>(clock.now_ns() - from) * 1e-6);
    }
    std::printf(
        "checks %d evaluations without a clock, one behind the other: median %.1f ms, P90 %.1f ms; "
        "of it start %.1f ms\n",
        options.checks, env::median_of(all_ms), env::quantile_of(all_ms, 0.9),
        1000 * (judge->stages().start - checking.start) / options.checks);
  }
  return met;
}

int run(const module_bench_options& options) {
  const auto failed = [](const base::error& e) {
    std::fprintf(stderr, "bench_modules: %s\n", e.message.c_str());
    return 2;
  };
  if (options.gpu)
    if (const auto usable = env::check_module_gpus(); !usable)
      return failed(
          {usable.error().code, fmt::format("GPU {}: {}", *options.gpu, usable.error().message)});
  std::printf("bench_modules on %s, sandbox %s, budget %.2f s\n", env::cpu_model().c_str(),
              options.sandbox.c_str(), options.budget_s);
  print_load("before");
  const auto mode =
      options.sandbox == "required" ? env::sandbox_mode::required : env::sandbox_mode::best_effort;
  bool met = true;
  if (options.forks > 0) {
    const auto forked = options.gpu ? bench_contexts(mode, *options.gpu, options.forks)
                                    : bench_forks(mode, options.forks);
    if (!forked) return failed(forked.error());
    met &= *forked;
  }
  if (options.gpu && options.copies > 0) {
    const auto copied = bench_copies(mode, *options.gpu, options.copies);
    if (!copied) return failed(copied.error());
    met &= *copied;
  }
  if (options.trials > 0) {
    const auto judged = bench_against_itself(options);
    if (!judged) return failed(judged.error());
    met &= *judged;
  }
  print_load("after");
  return met ? 0 : 1;
}

}  // namespace
}  // namespace quern::tools

int main(int argc, char** argv) {
  using namespace quern::tools;
  CLI::App app{
      "Measures lane pytorch on a core: forks, a candidate that is the reference, and "
      "evaluations an hour.",
      "bench_modules"};
  module_bench_options options;
  app.add_option("--forks", options.forks, "forks to measure; 0: none")
      ->check(whole_within(0, 100000))
      ->capture_default_str();
  app.add_option("--trials", options.trials, "evaluations of the reference as a candidate; 0: none")
      ->check(whole_within(0, 1000000))
      ->capture_default_str();
  app.add_option("--checks", options.checks,
                 "evaluations behind those of --trials that are not timed; 0: none")
      ->check(whole_within(0, 1000000))
      ->capture_default_str();
  app.add_option("--only", options.only, "one task of --trials; default: all")
      ->check(CLI::IsMember({"mlp", "softmax", "matmul", "reduction", "layer_norms"}));
  app.add_option("--sandbox", options.sandbox, "required or best_effort")
      ->check(CLI::IsMember({"required", "best_effort"}))
      ->capture_default_str();
  app.add_option("--budget-s", options.budget_s, "seconds of measuring for each evaluation")
      ->check(number_within(0.05, 60))
      ->capture_default_str();
  auto* gpu = app.add_option("--gpu", options.gpu,
                             "measure on this GPU, by the driver's number; else on a core")
                  ->check(whole_within(0, 63));
  app.add_option("--copies", options.copies,
                 "turns of measuring what copies between two calls cost; 0: none")
      ->check(whole_within(0, 100000))
      ->needs(gpu)
      ->capture_default_str();
  app.add_option("--ahead", options.ahead,
                 "processes of --trials that stand ready for an evaluation; 0: none")
      ->check(whole_within(0, 16))
      ->capture_default_str();
  if (const auto code = parse(app, argc, argv)) return *code;
  return run(options);
}
