// How well and how fast the evaluator measures: a kernel against itself (idle, and with the other
// cores busy), and evaluations per hour on a suite with the stages in which their seconds go.
//
//   bench_eval [--trials N] [--suite FOLDER] [--rounds N] [--budget-s S] [--json FILE] [--null-file
//   FILE]
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <sched.h>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/program.hpp"
#include "env/judge/machine.hpp"
#include "env/lanes/cpp/cpp_evaluator.hpp"
#include "env/measure/null_distribution.hpp"
#include "env/measure/stats.hpp"
#include "env/task/suite.hpp"
#include "env/task/task_codec.hpp"
#include "env/tensor_task/tensor_body.hpp"
#include "tools/stage_table.hpp"

namespace quern::tools {
namespace {

using base::ordered_json;

struct bench_options {
  int trials = 20;
  int rounds = 1;
  double budget_s = 0.5;
  std::string only;
  std::string suite;
  std::string json_file;
  std::string null_file;
};

/// Keeps every core but one busy with arithmetic and memory traffic until destroyed.
class load {
 public:
  explicit load(int spared) {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    sched_getaffinity(0, sizeof allowed, &allowed);
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (core != spared && CPU_ISSET(core, &allowed))
        threads_.emplace_back([this, core] { work(core); });
  }
  ~load() {
    stop_ = true;
    for (auto& t : threads_)
      t.join();
  }

 private:
  void work(int core) {
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(core, &only);
    sched_setaffinity(0, sizeof only, &only);
    std::vector<float> data(4U << 20U, 1.0F);
    while (!stop_)
      for (auto& x : data)
        x = x * 0.999F + 0.001F;
  }
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

/// A kernel whose call takes about `us`: compute-bound (a polynomial) or memory-bound (a scaled
/// sum).
std::string self_task(const std::string& name, bool memory, std::int64_t elements) {
  const std::string body =
      memory ? "y[i] = x[i] * 2.5f + 1.0f;"
             : "float a = x[i]; for (int k = 0; k < 24; ++k) a = a * 0.5f + 0.25f; y[i] = a;";
  const std::string reference =
      memory ? "      return x * 2.5 + 1.0\n"
             : "      for k in range(24):\n          x = x * 0.5 + 0.25\n      return x\n";
  return "quern_task: 1\nname: " + name +
         "\nlane: cpp\nfamily: bench\nsizes: {n: " + std::to_string(elements) +
         "}\nhidden_sizes: [{n: 7}, {n: 1000}]\ninputs:\n  - {name: x, dtype: f32, shape: [n], "
         "dist: [normal, uniform]}\n"
         "outputs:\n  - {name: y, dtype: f32, shape: [n]}\ntolerance: {atol: 1.0e-5, rtol: "
         "1.0e-4}\nbaseline: plain\n"
         "cost: {bytes: 8*n, flops: n}\nreference: |\n  def forward(x):\n" +
         reference +
         "plain: |\n  extern \"C\" void kernel(const float* x, float* y, int64_t n, void*, void*) "
         "{\n"
         "    for (int64_t i = 0; i < n; ++i) { " +
         body + " }\n  }\n";
}

struct self_result {
  double call_ns = 0, bias = 0, p50 = 0, p90 = 0, p99 = 0, noisy = 0, seconds = 0;
  double claimed_p99 = 0;  ///< of the speed-up as the verdict says it: rounded, 1 inside the noise
  double windows = 0;      ///< pairs in a measurement, median
  int measured = 0;
};

self_result against_itself(env::cpp_evaluator& with, const std::string& text, int trials) {
  self_result r;
  auto subject = std::make_shared<const env::task>(env::parse_task(text).value());
  std::vector<double> errors, signed_errors, claimed_errors, calls, windows;
  const base::steady_clock clock;
  const auto start = clock.now_ns();
  for (int t = 0; t < trials; ++t) {
    env::evaluation_request request;
    request.subject = subject;
    request.source = env::tensors_of(*subject).plain;
    request.seed = static_cast<std::uint64_t>(t);
    request.recheck = true;
    const auto v = with.evaluate(request);
    if (v.kind == env::verdict_kind::noisy) r.noisy += 1.0 / trials;
    if (!v.time || v.time->log_ratio_e9.size() != 3 || v.kind != env::verdict_kind::ok) {
      if (v.kind != env::verdict_kind::noisy)
        std::fprintf(stderr, "bench_eval: %s: %s\n", subject->name.c_str(),
                     env::summary(v).c_str());
      continue;
    }
    signed_errors.push_back(std::exp(static_cast<double>(v.time->log_ratio_e9[1]) * 1e-9) - 1);
    errors.push_back(std::abs(signed_errors.back()));
    claimed_errors.push_back(std::abs(static_cast<double>(v.speedup_e2.value_or(100)) / 100 - 1));
    windows.push_back(static_cast<double>(v.time->windows));
    for (auto ns : v.time->ref_ns)
      calls.push_back(static_cast<double>(ns));
  }
  r.seconds = static_cast<double>(clock.now_ns() - start) * 1e-9 / trials;
  r.measured = static_cast<int>(errors.size());
  r.call_ns = env::median_of(calls);
  r.bias = env::median_of(signed_errors);
  r.p50 = env::quantile_of(errors, 0.5);
  r.p90 = env::quantile_of(errors, 0.9);
  r.p99 = env::quantile_of(errors, 0.99);
  r.claimed_p99 = env::quantile_of(claimed_errors, 0.99);
  r.windows = env::median_of(windows);
  return r;
}

struct self_kind {
  const char* name;
  bool memory;
  std::int64_t elements;
};
constexpr self_kind self_kinds[] = {{"compute_100us", false, 6 << 10},
                                    {"compute_1ms", false, 56 << 10},
                                    {"memory_100us", true, 256 << 10},
                                    {"memory_1ms", true, 2 << 20}};

void bench_self(env::cpp_evaluator& with, const bench_options& options, ordered_json& out,
                std::vector<env::null_point>& null) {
  for (const bool loaded : {false, true}) {
    std::unique_ptr<load> busy;
    if (loaded) busy = std::make_unique<load>(with.core());
    for (const auto& kind : self_kinds) {
      if (!options.only.empty() && options.only != kind.name) continue;
      const auto r =
          against_itself(with, self_task(kind.name, kind.memory, kind.elements), options.trials);
      std::printf(
          "%-6s %-14s call %8.1f us  |speed-up - 1| median %+.2f %%, p50 %.2f %%  p90 %.2f %%  p99 "
          "%.2f %%, as claimed %.0f %%  noisy %.0f %%  %.0f pairs in %.2f s each\n",
          loaded ? "loaded" : "idle", kind.name, r.call_ns / 1000, 100 * r.bias, 100 * r.p50,
          100 * r.p90, 100 * r.p99, 100 * r.claimed_p99, 100 * r.noisy, r.windows, r.seconds);
      std::fflush(stdout);
      out["against_itself"].push_back({{"load", loaded ? "other cores busy" : "idle"},
                                       {"kernel", kind.name},
                                       {"call_ns", std::llround(r.call_ns)},
                                       {"p50_e6", std::llround(r.p50 * 1e6)},
                                       {"p90_e6", std::llround(r.p90 * 1e6)},
                                       {"p99_e6", std::llround(r.p99 * 1e6)},
                                       {"claimed_p99_e6", std::llround(r.claimed_p99 * 1e6)},
                                       {"pairs", std::llround(r.windows)},
                                       {"noisy_percent", std::llround(100 * r.noisy)},
                                       {"trials", options.trials},
                                       {"measured", r.measured},
                                       {"ms_each", std::llround(r.seconds * 1000)}});
      if (loaded && r.measured > 0) null.push_back({r.call_ns, std::min(0.5, std::log1p(r.p99))});
    }
  }
}

int bench_suite(env::cpp_evaluator& with, const bench_options& options, ordered_json& out) {
  const auto suite = env::load_suite(options.suite);
  if (!suite) {
    std::fprintf(stderr, "bench_eval: %s\n", suite.error().message.c_str());
    return 2;
  }
  std::vector<std::shared_ptr<const env::task>> tasks;
  for (const auto& member : suite->members)
    if (!env::tensors_of(member.task).plain.empty())
      tasks.push_back(std::make_shared<const env::task>(member.task));
  // Preparing a task happens once in a run, not once an evaluation.
  const auto before_preparing = with.stages();
  for (const auto& t : tasks) {
    env::evaluation_request request;
    request.subject = t;
    request.source = env::tensors_of(*t).plain;
    request.verify_only = true;
    with.evaluate(request);
  }
  const auto before = with.stages();
  const base::steady_clock clock;
  const auto start = clock.now_ns();
  int evaluations = 0, noisy = 0;
  for (int round = 0; round < options.rounds; ++round)
    for (const auto& t : tasks)
      for (const bool right : {true, false}) {
        env::evaluation_request request;
        request.subject = t;
        // A declaration more makes it a source that was never compiled; a wrong one computes
        // nothing.
        request.source = "static const int round_" + std::to_string(round) + " = 0;\n" +
                         env::tensors_of(*t).plain;
        if (!right)
          request.source = "static const int wrong_" + std::to_string(round) +
                           " = 0;\nextern \"C\" " +
                           [&] {
                             const auto at = env::tensors_of(*t).plain.find("void kernel(");
                             return env::tensors_of(*t).plain.substr(
                                 at, env::tensors_of(*t).plain.find('{', at) - at);
                           }() +
                           "{}\n";
        request.seed = static_cast<std::uint64_t>(evaluations);
        const auto v = with.evaluate(request);
        ++evaluations;
        noisy += v.kind == env::verdict_kind::noisy;
        const bool odd = right
                             ? v.kind != env::verdict_kind::ok && v.kind != env::verdict_kind::noisy
                             : v.kind != env::verdict_kind::wrong_value &&
                                   v.kind != env::verdict_kind::nondeterministic;
        if (odd)
          std::fprintf(stderr, "bench_eval: %s: %s\n", t->name.c_str(), env::summary(v).c_str());
      }
  const double seconds = static_cast<double>(clock.now_ns() - start) * 1e-9;
  const auto after = with.stages();
  const double per_hour = 3600.0 * evaluations / seconds;
  std::printf(
      "suite  %s: %d evaluations (half of them wrong) in %.1f s: %.0f an hour, %d noisy; preparing "
      "%zu tasks %.1f s\n",
      suite->name.c_str(), evaluations, seconds, per_hour, noisy, tasks.size(),
      before.reference - before_preparing.reference);
  ordered_json stages;
  each_stage(before, after, [&](const char* name, double value) {
    std::printf("       %-10s %6.1f ms an evaluation\n", name, 1000 * value / evaluations);
    stages[name] = std::llround(1e6 * value / evaluations);
  });
  out["suite"] = {{"name", suite->name},
                  {"evaluations", evaluations},
                  {"seconds_e3", std::llround(seconds * 1000)},
                  {"per_hour", std::llround(per_hour)},
                  {"noisy", noisy},
                  {"stage_us_per_evaluation", stages}};
  return 0;
}

int run(const bench_options& options) {
  env::evaluator_options opening;
  opening.time_budget_s = options.budget_s;
  auto with = env::cpp_evaluator::open(opening);
  if (!with) {
    std::fprintf(stderr, "bench_eval: %s\n", with.error().message.c_str());
    return 1;
  }
  ordered_json out;
  out["bench"] = "eval";
  out["processor"] = env::cpu_model();
  out["device_class"] = (*with)->device_class();
  out["unix_time_s"] = base::unix_time_ns() / 1'000'000'000;
  out["budget_ms"] = std::llround(options.budget_s * 1000);
  std::printf("bench_eval on %s (%s), core %d, budget %.2f s\n", env::cpu_model().c_str(),
              (*with)->device_class().c_str(), (*with)->core(), options.budget_s);
  std::vector<env::null_point> null;
  if (options.trials > 0) bench_self(**with, options, out, null);
  if (!options.suite.empty())
    if (const int code = bench_suite(**with, options, out); code != 0) return code;
  if (!options.null_file.empty() && !null.empty()) {
    auto made = env::null_distribution::make(null);
    if (made)
      if (auto written = base::write_file_atomic(
              options.null_file, base::dump_pretty(made->to_json((*with)->device_class())) + "\n");
          !written)
        std::fprintf(stderr, "bench_eval: %s\n", written.error().message.c_str());
  }
  if (!options.json_file.empty())
    if (auto written = base::write_file_atomic(options.json_file, base::dump_pretty(out) + "\n");
        !written) {
      std::fprintf(stderr, "bench_eval: %s\n", written.error().message.c_str());
      return 1;
    }
  return 0;
}

}  // namespace
}  // namespace quern::tools

int main(int argc, char** argv) {
  CLI::App app{"Measures the evaluator: a kernel against itself, and evaluations per hour.",
               "bench_eval"};
  quern::tools::bench_options options;
  app.add_option("--trials", options.trials, "measurements of each kernel against itself; 0: none")
      ->capture_default_str();
  app.add_option("--only", options.only, "one of the kernels of --trials; default: all")
      ->check(CLI::IsMember({"compute_100us", "compute_1ms", "memory_100us", "memory_1ms"}));
  app.add_option("--suite", options.suite, "suite folder for throughput; none: left out");
  app.add_option("--rounds", options.rounds, "passes over the suite")->capture_default_str();
  app.add_option("--budget-s", options.budget_s, "seconds of measuring for each evaluation")
      ->capture_default_str();
  app.add_option("--json", options.json_file, "also write the figures here");
  app.add_option("--null-file", options.null_file,
                 "write the null distribution of this device class here");
  CLI11_PARSE(app, argc, argv);
  return quern::tools::run(options);
}
