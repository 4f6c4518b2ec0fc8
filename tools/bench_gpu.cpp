// How well and how fast lane `cuda` judges, on one GPU:
//
//   bench_gpu honest [--suite NAME]    tests/honest/cuda: every verdict that is not `ok`
//   bench_gpu hostile [--no-screen]    tests/hostile/cuda: every verdict that is not among the
//   right ones bench_gpu self [--trials N]        a kernel against itself, and against itself made
//   slower bench_gpu rate [--form F]          distinct candidates of cuda_quick an hour, and where
//   the time goes
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/program.hpp"
#include "env/gpu/gpu_evaluator.hpp"
#include "env/measure/stats.hpp"
#include "env/task/task_codec.hpp"
#include "tools/bench_gpu_kernels.hpp"

namespace quern::tools {
namespace {

struct gpu_bench_options {
  std::string what, suite, only, form, source = ".";
  int trials = 20, rounds = 1, threads = 8, gpu = 0;
  double budget_s = 0.15;
  bool screen = true;
};

struct candidate_file {
  std::string file, form;
  std::vector<std::string> right;  ///< "ok", "hack:timing", …
  /// Where `ok` is right only if it does not pay: an honest file before it, and the most that this
  /// one's speed-up may be of that one's, x 100.
  std::string twin;
  std::int64_t pays_at_most_e2 = 0;
  env::evaluation_request request;
};

/// Builds candidates before their turn, a bounded number ahead.
class build_ahead {
 public:
  build_ahead(env::gpu_evaluator& with, const std::vector<env::evaluation_request>& list,
              int threads)
      : with_(with), list_(list) {
    for (int i = 0; i < threads; ++i)
      threads_.emplace_back([this] { work(); });
  }
  ~build_ahead() {
    stop_ = true;
    for (auto& t : threads_)
      t.join();
  }
  void now_at(std::size_t turn) { turn_ = turn; }

 private:
  void work() {
    constexpr std::size_t most_ahead = 48;
    for (std::size_t i = next_++; i < list_.size() && !stop_; i = next_++) {
      while (i > turn_ + most_ahead && !stop_)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      if (!stop_) with_.compile_ahead(list_[i]);
    }
  }
  env::gpu_evaluator& with_;
  const std::vector<env::evaluation_request>& list_;
  std::atomic<std::size_t> next_{0}, turn_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

std::string short_verdict(const env::verdict& v) {
  std::string text(env::name_of(v.kind));
  if (!v.reason.empty()) text += ":" + v.reason;
  return text;
}

bool is_right(const env::verdict& v, const std::vector<std::string>& right) {
  const std::string whole = short_verdict(v), kind(env::name_of(v.kind));
  return std::any_of(right.begin(), right.end(),
                     [&](const std::string& r) { return r == whole || r == kind; });
}

std::shared_ptr<const env::task> task_at(const std::string& path) {
  static std::map<std::string, std::shared_ptr<const env::task>> known;
  auto& found = known[path];
  if (!found) {
    auto loaded = env::load_task(path);
    if (!loaded) {
      std::fprintf(stderr, "bench_gpu: %s\n", loaded.error().message.c_str());
      std::exit(2);
    }
    found = std::make_shared<const env::task>(std::move(*loaded));
  }
  return found;
}

std::string read_source(const std::string& path) {
  auto text = base::read_file(path, 1U << 20U);
  if (text) return *text;
  std::fprintf(stderr, "bench_gpu: %s\n", text.error().message.c_str());
  std::exit(2);
}

base::json read_manifest(const std::string& path) {
  auto value = base::parse_json(read_source(path));
  if (value) return *value;
  std::fprintf(stderr, "bench_gpu: %s: %s\n", path.c_str(), value.error().message.c_str());
  std::exit(2);
}

std::vector<candidate_file> honest_files(const gpu_bench_options& o) {
  const std::string folder = o.source + "/tests/honest/cuda/";
  std::vector<candidate_file> list;
  const auto manifest = read_manifest(folder + "manifest.json");
  for (const auto& c : manifest.at("candidates")) {
    candidate_file f;
    f.file = c.at("file").get<std::string>();
    f.form = c.at("form").get<std::string>();
    const auto suite = c.at("suite").get<std::string>();
    if (!o.suite.empty() && suite != o.suite) continue;
    if (!o.form.empty() && f.form != o.form) continue;
    if (!o.only.empty() && f.file.find(o.only) == std::string::npos) continue;
    f.right = {c.at("expected").get<std::string>()};
    f.request.subject = task_at(o.source + "/env/suites/" + suite + "/" +
                                c.at("task").get<std::string>() + ".task.yaml");
    f.request.source = read_source(folder + f.file);
    f.request.recheck_above = 3;
    list.push_back(std::move(f));
  }
  return list;
}

std::vector<candidate_file> hostile_files(const gpu_bench_options& o) {
  const std::string folder = o.source + "/tests/hostile/cuda/";
  std::vector<candidate_file> list;
  const auto manifest = read_manifest(folder + "manifest.json");
  for (const auto& c : manifest.at("candidates")) {
    if (c.contains("touches_device_settings")) continue;
    candidate_file f;
    f.file = c.at("file").get<std::string>();
    f.form = c.at("form").get<std::string>();
    if (!o.form.empty() && f.form != o.form) continue;
    if (!o.only.empty() && f.file.find(o.only) == std::string::npos) continue;
    for (const auto& right : c.at(o.screen ? "with_screen" : "without_screen"))
      f.right.push_back(right.get<std::string>());
    if (c.contains("twin")) f.twin = c.at("twin").get<std::string>();
    f.pays_at_most_e2 = c.value("pays_at_most_e2", std::int64_t{0});
    f.request.subject = task_at(folder + c.at("task").get<std::string>());
    f.request.source = read_source(folder + f.file);
    f.request.recheck_above = 3;
    list.push_back(std::move(f));
  }
  return list;
}

int bench_files(env::gpu_evaluator& with, const gpu_bench_options& o,
                const std::vector<candidate_file>& list) {
  std::vector<env::evaluation_request> requests;
  for (const auto& f : list)
    requests.push_back(f.request);
  build_ahead ahead(with, requests, o.threads);
  const base::steady_clock clock;
  const auto start = clock.now_ns();
  int odd = 0;
  std::map<std::string, std::int64_t> speedups;
  for (std::size_t i = 0; i < list.size(); ++i) {
    ahead.now_at(i);
    const auto& f = list[i];
    const auto begun = clock.now_ns();
    const auto v = with.evaluate(f.request);
    const double ms = static_cast<double>(clock.now_ns() - begun) * 1e-6;
    bool right = is_right(v, f.right);
    if (v.kind == env::verdict_kind::ok && v.speedup_e2) {
      speedups[f.file] = *v.speedup_e2;
      const auto twin = speedups.find(f.twin);
      if (f.pays_at_most_e2 > 0 && twin != speedups.end() &&
          100 * *v.speedup_e2 > f.pays_at_most_e2 * twin->second + 100)
        right = false;
    }
    odd += right ? 0 : 1;
    std::string times;
    if (v.time && !v.time->ref_ns.empty())
      times = fmt::format("  ref {:.1f} us, cand {:.1f} us, x{:.2f}",
                          static_cast<double>(v.time->ref_ns[3]) / 1000,
                          static_cast<double>(v.time->cand_ns[3]) / 1000,
                          static_cast<double>(v.speedup_e2.value_or(0)) / 100);
    std::printf("%s %-46s %-11s %6.0f ms  %s%s%s%s\n", right ? "  " : "**", f.file.c_str(),
                f.form.c_str(), ms, short_verdict(v).c_str(), times.c_str(), right ? "" : "  | ",
                right ? "" : v.detail.substr(0, 400).c_str());
    std::fflush(stdout);
  }
  std::printf("%zu candidates in %.1f s, %d verdicts that are not right\n", list.size(),
              static_cast<double>(clock.now_ns() - start) * 1e-9, odd);
  return odd == 0 ? 0 : 1;
}

// ---- a kernel against itself ----

int bench_self(env::gpu_evaluator& with, const gpu_bench_options& o) {
  bool first = true;
  for (const auto& k : self_kernels) {
    if (!o.only.empty() && std::string(k.name).find(o.only) == std::string::npos) continue;
    auto subject = std::make_shared<const env::task>(self_task(k));
    for (const int more : {0, 2, 5, 20}) {
      std::vector<double> ratios, errors, seconds, windows;
      double call_ns = 0;
      int noisy = 0, claims = 0, wrong_sign = 0, failed = 0;
      const int trials = more == 0 ? o.trials : std::max(1, o.trials / 2);
      const base::steady_clock clock;
      for (int t = 0; t < trials; ++t) {
        env::evaluation_request r;
        r.subject = subject;
        // A source of its own: equal ones would be pooled.
        r.source = fmt::format("constexpr int trial_{} = 0;\n", t) + self_source(k, more);
        r.seed = static_cast<std::uint64_t>(t);
        const auto begun = clock.now_ns();
        const auto v = with.evaluate(r);
        seconds.push_back(static_cast<double>(clock.now_ns() - begun) * 1e-9);
        if (v.kind == env::verdict_kind::noisy) ++noisy;
        if (v.kind != env::verdict_kind::ok && v.kind != env::verdict_kind::noisy && ++failed == 1)
          std::printf("** %s: %s %s\n", k.name, short_verdict(v).c_str(), v.detail.c_str());
        if (!v.time || v.kind != env::verdict_kind::ok) continue;
        ratios.push_back(static_cast<double>(v.time->log_ratio_e9[1]) * 1e-9);
        errors.push_back(std::abs(ratios.back()));
        windows.push_back(static_cast<double>(v.time->windows));
        call_ns = static_cast<double>(v.time->ref_ns[3]);
        claims += v.speedup_e2 != 100;
        wrong_sign += ratios.back() >= 0;
      }
      if (first)
        std::printf("against itself: |ln ratio|; slower: told from 1.00 with the right sign\n");
      first = false;
      if (errors.empty()) {
        std::printf("%-18s +%2d %%: nothing measured, noisy %d, failed %d of %d\n", k.name, more,
                    noisy, failed, trials);
        continue;
      }
      std::printf(
          "%-18s +%2d %%  call %8.1f us  median %+.2f %%  |.| p50 %.2f %%  p99 %.2f %%  claimed "
          "not "
          "1.00: %d of %zu%s  noisy %d of %d  %.0f pairs, %.2f s each\n",
          k.name, more, call_ns / 1000, 100 * env::median_of(ratios),
          100 * env::quantile_of(errors, 0.5), 100 * env::quantile_of(errors, 0.99), claims,
          errors.size(), more > 0 ? fmt::format(", wrong sign {}", wrong_sign).c_str() : "", noisy,
          trials, env::median_of(windows), env::median_of(seconds));
      std::fflush(stdout);
    }
  }
  return 0;
}

// ---- evaluations an hour ----

int bench_rate(env::gpu_evaluator& with, const gpu_bench_options& given) {
  gpu_bench_options o = given;
  if (o.suite.empty()) o.suite = "cuda_quick";
  const auto files = honest_files(o);
  std::vector<env::evaluation_request> requests, warm;
  for (int round = 0; round < o.rounds; ++round)
    for (const auto& f : files) {
      auto r = f.request;
      // A constant more makes it a source that was never built.
      r.source = fmt::format("constexpr int round_{} = 0;\n", round) + r.source;
      r.seed = requests.size();
      requests.push_back(std::move(r));
    }
  for (const auto& f : files) {
    auto r = f.request;
    r.verify_only = true;
    warm.push_back(std::move(r));
  }
  for (const auto& r : warm)
    with.evaluate(r);
  const auto before = with.stages();
  const auto device_before = with.device_time();
  std::map<std::string, int> kinds;
  const base::steady_clock clock;
  const auto start = clock.now_ns();
  {
    build_ahead ahead(with, requests, o.threads);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      ahead.now_at(i);
      ++kinds[short_verdict(with.evaluate(requests[i]))];
    }
  }
  const double seconds = static_cast<double>(clock.now_ns() - start) * 1e-9;
  const auto after = with.stages();
  const auto device = with.device_time();
  const auto n = static_cast<double>(requests.size());
  std::printf(
      "%zu distinct candidates in %.1f s: %.0f an hour; measuring %.0f %%, leased %.0f %%\n",
      requests.size(), seconds, 3600 * n / seconds,
      100 * (device.measuring - device_before.measuring) / seconds,
      100 * (device.leased - device_before.leased) / seconds);
  for (const auto& [kind, count] : kinds)
    std::printf("  %-24s %d\n", kind.c_str(), count);
  const auto stage = [&](const char* name, double value) {
    std::printf("  %-10s %7.1f ms an evaluation\n", name, 1000 * value / n);
  };
  stage("screen", after.screen - before.screen);
  stage("compile", after.compile - before.compile);
  stage("start", after.start - before.start);
  stage("verify", after.verify - before.verify);
  stage("probe", after.probe - before.probe);
  stage("time", after.time - before.time);
  stage("re-verify", after.reverify - before.reverify);
  return 0;
}

int bench_gpu(int argc, char** argv) {
  CLI::App app{"How well and how fast lane cuda judges."};
  gpu_bench_options o;
  app.add_option("what", o.what, "honest, hostile, self or rate")
      ->required()
      ->check(CLI::IsMember({"honest", "hostile", "self", "rate"}));
  app.add_option("--suite", o.suite, "honest, rate: only this suite");
  app.add_option("--only", o.only, "files or kernels whose name contains this");
  app.add_option("--form", o.form, "device_only or host_entry");
  app.add_option("--source", o.source, "the source tree")->capture_default_str();
  app.add_option("--trials", o.trials)->check(CLI::Range(1, 100000))->capture_default_str();
  app.add_option("--rounds", o.rounds)->check(CLI::Range(1, 100000))->capture_default_str();
  app.add_option("--threads", o.threads, "compilers")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_option("--gpu", o.gpu)->check(CLI::Range(0, 63))->capture_default_str();
  app.add_option("--budget-s", o.budget_s)->check(CLI::Range(0.02, 3600.0))->capture_default_str();
  bool no_screen = false, best_effort = false, no_sandbox = false;
  app.add_flag("--no-screen", no_screen);
  app.add_flag("--best-effort", best_effort, "run although sandbox layers are missing");
  app.add_flag("--no-sandbox", no_sandbox, "no layer of the sandbox, to see what it costs");
  CLI11_PARSE(app, argc, argv);
  o.screen = !no_screen;
  env::evaluator_options opening;
  opening.gpu = o.gpu;
  opening.time_budget_s = o.budget_s;
  opening.static_screen = o.screen;
  opening.sandbox_required = !best_effort;
  opening.confirm_at_once = o.what != "rate";
  opening.remeasure_probability = 0;
  if (no_sandbox) opening.layers = env::layer_set();
  auto with = env::gpu_evaluator::open(opening);
  if (!with) {
    std::fprintf(stderr, "bench_gpu: %s\n", with.error().message.c_str());
    return 1;
  }
  std::printf("%s, environment %s\n", (*with)->device_class().c_str(),
              (*with)->environment().c_str());
  (*with)->warm_up();
  if (o.what == "honest") return bench_files(**with, o, honest_files(o));
  if (o.what == "hostile") return bench_files(**with, o, hostile_files(o));
  if (o.what == "self") return bench_self(**with, o);
  return bench_rate(**with, o);
}

}  // namespace
}  // namespace quern::tools

int main(int argc, char** argv) {
  return quern::tools::bench_gpu(argc, argv);
}
