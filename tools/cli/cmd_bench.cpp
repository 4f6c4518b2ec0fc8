// quern bench: many candidates of a suite on all devices, resumed after a kill, with a report.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <thread>

#include <fmt/format.h>

#include "base/clock.hpp"
#include "base/file.hpp"
#include "base/hash.hpp"
#include "base/program.hpp"
#include "env/device/gpu_probe.hpp"
#include "env/judge/evaluator_options.hpp"
#include "env/judge/judge.hpp"
#include "env/task/find_tasks.hpp"
#include "tools/bench/bench_attempts.hpp"
#include "tools/bench/bench_run.hpp"
#include "tools/bench/candidates.hpp"
#include "tools/bench/choices.hpp"
#include "tools/bench/kernelbench_baselines.hpp"
#include "tools/bench/kernelbench_files.hpp"
#include "tools/bench/not_right.hpp"
#include "tools/bench/progress.hpp"
#include "tools/bench/report_forms.hpp"
#include "tools/bench/results.hpp"
#include "tools/bench/resume.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/lane_words.hpp"
#include "tools/cli/measure_options.hpp"
#include "tools/cli/parse.hpp"
#include "tools/cli/source_options.hpp"

namespace quern::tools {
namespace {

namespace fs = std::filesystem;
using base::errc;

struct bench_arguments {
  std::string suite, candidates, out, report;
  std::string write_kernelbench;
  std::vector<std::string> kernelbench_baselines, degenerate;
  std::vector<std::int64_t> pass_k;  ///< empty: usual_pass_k
  std::vector<int> gpus;
  int core = -1, compilers = -1;
  double budget_s = 0;   ///< 0: the protocol's own length, else the evaluator's default
  double timeout_s = 0;  ///< of one evaluation as a whole; 0: none
  env::source_options tasks;
  measure_options measuring;
  env::measure_name measured;
  bool best_effort = false, each_task = false, skip_unknown = false;
};

std::atomic<bool> stop_bench = false;

/// The first signal ends after what is being judged, a second one at once.
void on_bench_signal(int number) {
  stop_bench = true;
  std::signal(number, SIG_DFL);
}

using open_judges = std::vector<std::unique_ptr<env::candidate_judge>>;

base::expected<open_judges> open_all(const bench_arguments& a, const env::suite& suite,
                                     const env::lane& lane) {
  env::evaluator_options options;
  options.sandbox_required = !a.best_effort;
  options.time_budget_s = a.budget_s;
  options.core = a.core;
  options.policy = suite.policy;
  // Nobody asks again later: a large claim is settled now.
  options.confirm_at_once = true;
  std::vector<int> gpus = {0};
  // A lane that can judge on either does so on a GPU where some are named; one of cores refuses.
  options.on_gpu = !a.gpus.empty();
  const bool on_gpus = lane.device == env::device_kind::gpu || options.on_gpu;
  if (on_gpus) {
    // A probe leaves contexts on all GPUs, and others may measure there. Those that are named are
    // opened anyway, which says whether they compute.
    const auto host = a.gpus.empty() ? env::probe_gpus() : env::list_gpus();
    if (!host)
      return base::fail(host.error().code, "{}; quern doctor tells more", host.error().message);
    QUERN_TRY(chosen_gpus chosen, choose_gpus(*host, a.gpus));
    for (const std::string& one : chosen.left_out)
      fmt::print(stderr, "quern bench: {}\n", one);
    gpus = std::move(chosen.gpus);
  }
  open_judges judges;
  for (const int gpu : gpus) {
    options.gpu = gpu;
    auto opened = lane.open_judge(options);
    if (!opened)
      return on_gpus ? base::in_context(fmt::format("GPU {}", gpu), opened.error())
                     : tl::make_unexpected(opened.error());
    auto one = std::move(*opened);
    if (!judges.empty() && (one->device_class() != judges.front()->device_class() ||
                            one->environment() != judges.front()->environment()))
      return base::fail(errc::invalid_argument,
                        "GPU {} ({}) and GPU {} ({}) are of different kinds, whose times are never "
                        "compared: choose equal ones with --gpus",
                        gpus.front(), judges.front()->device_class(), gpu, one->device_class());
    judges.push_back(std::move(one));
  }
  return judges;
}

/// One request a candidate, in order.
std::vector<env::evaluation_request> requests_of(const env::suite& suite,
                                                 const std::vector<bench_candidate>& candidates,
                                                 const env::measure_name& measured,
                                                 double timeout_s) {
  std::vector<std::shared_ptr<const env::task>> tasks;
  for (const env::suite_member& member : suite.members)
    tasks.push_back(std::make_shared<const env::task>(member.task));
  std::vector<env::evaluation_request> requests;
  for (const bench_candidate& one : candidates) {
    env::evaluation_request request;
    request.subject = tasks[one.member];
    request.source = one.source;
    request.protocol = env::to_text(measured);
    // The same candidate has the same random numbers in every run, wherever it stands in a list.
    request.seed = base::hasher().add(one.task).add(one.id).digest().low;
    request.recheck_above = static_cast<double>(suite.recheck_above_e2) / 100;
    request.time_limit_s = timeout_s;
    requests.push_back(std::move(request));
  }
  return requests;
}

struct bench_end {
  std::vector<bench_result> results;
  std::vector<std::string> problems;  ///< what hosts said of what has no verdict
};

base::expected<bench_end> judge_all(const bench_arguments& a, const open_judges& judges,
                                    const env::suite& suite,
                                    const std::vector<bench_candidate>& candidates,
                                    results_file& file) {
  bench_end end;
  QUERN_TRY(end.results, matching_results(file.earlier(), candidates, a.out));
  std::int64_t successes = 0;
  for (const bench_result& one : end.results)
    successes += one.verdict.kind == env::verdict_kind::ok ? 1 : 0;
  const auto items = unjudged(candidates, end.results);
  const auto before = static_cast<std::int64_t>(end.results.size());
  if (before > 0) fmt::print(stderr, "quern bench: {} verdicts are in {}\n", before, a.out);
  if (items.empty()) return end;

  bench_run_options options;
  const int workers = static_cast<int>(judges.size());
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  options.compilers =
      a.compilers >= 0 ? a.compilers : std::clamp((cores - workers) / workers, 1, 16);
  std::vector<env::candidate_judge*> with;
  for (const auto& one : judges)
    with.push_back(one.get());
  const base::steady_clock clock;
  bench_progress progress(clock, static_cast<std::int64_t>(candidates.size()), before, successes);
  base::status written;
  const auto requests = requests_of(suite, candidates, a.measured, a.timeout_s);
  const auto given_up =
      run_bench(with, requests, items, options, stop_bench,
                [&](std::size_t item, const env::verdict& v, std::size_t) {
                  progress.add(v);
                  const bench_candidate& one = candidates[item];
                  if (!is_final(v)) {
                    end.problems.push_back(fmt::format("{}: {}", one.origin, env::summary(v)));
                    return true;
                  }
                  end.results.push_back({one.task, one.id, one.hash, v});
                  written = file.append(end.results.back());
                  return written.has_value();
                });
  for (const std::string& why : given_up)
    end.problems.insert(end.problems.begin(), "a device was given up: " + why);
  if (!written) return base::in_context(a.out, written.error());
  return end;
}

base::status write_report(const bench_arguments& a, const bench_report& report,
                          const bench_scores& scores) {
  QUERN_CHECK(base::make_folders(a.report));
  QUERN_CHECK(base::write_file_atomic(fs::path(a.report) / "report.json",
                                      base::dump_pretty(to_json(report, scores)) + "\n"));
  return base::write_file_atomic(fs::path(a.report) / "report.html", to_html(report, scores));
}

/// Times of KernelBench's files, where some were named. What would refuse the files of
/// --write-kernelbench is told now, before hours of judging.
base::expected<std::vector<kernelbench_baselines>> prepare_kernelbench(const bench_arguments& a,
                                                                       const env::suite& suite) {
  if (!a.write_kernelbench.empty())
    QUERN_CHECK(check_kernelbench_folder(a.write_kernelbench, suite));
  std::vector<kernelbench_baselines> given;
  for (const std::string& file : a.kernelbench_baselines) {
    QUERN_TRY(auto one, read_kernelbench_baselines(file, suite));
    given.push_back(std::move(one));
  }
  return given;
}

/// Report and files of a benchmark as far as it came; prints the report.
base::expected<bench_report> tell_all(const bench_arguments& a, const bench_header& header,
                                      const env::suite& suite,
                                      const std::vector<bench_candidate>& candidates,
                                      const bench_end& end,
                                      std::span<const kernelbench_baselines> given) {
  std::vector<std::int64_t> counts(suite.members.size(), 0);
  for (const bench_candidate& one : candidates)
    ++counts[one.member];
  bench_report report = make_report(header, suite, counts, end.results);
  const task_attempts attempts = attempts_of(suite, candidates, end.results);
  const auto pass_k = a.pass_k.empty() ? usual_pass_k(most_attempts(attempts)) : a.pass_k;
  const bench_scores scores = make_scores(suite, attempts, header, pass_k, given);
  QUERN_CHECK(write_report(a, report, scores));
  if (!a.write_kernelbench.empty())
    QUERN_CHECK(write_kernelbench_folder(a.write_kernelbench,
                                         {suite, attempts, header.device_class, pass_k, given}));
  fmt::print("{}\n{}{}/report.html\n", to_text(report, scores, a.each_task),
             not_right_text(end.results, a.out), a.report);
  return report;
}

void tell_skipped(const skipped_candidates& skipped, const env::suite& suite) {
  if (skipped.candidates == 0) return;
  std::string names;
  std::size_t told = 0;
  for (const std::string& task : skipped.tasks)
    if (told++ < 5) names += (names.empty() ? "" : ", ") + task;
  fmt::print(stderr,
             "quern bench: {} candidates of {} tasks that {} does not have left out: {}{}\n",
             skipped.candidates, skipped.tasks.size(), suite.name, names,
             skipped.tasks.size() > 5 ? ", ..." : "");
}

/// Those of --candidates. A file of tasks that has candidates beside them may be named twice.
base::expected<std::vector<bench_candidate>> candidates_of(const bench_arguments& a,
                                                           const env::suite& suite,
                                                           skipped_candidates* skipped) {
  if (a.candidates == a.suite) {
    QUERN_TRY(auto bundled, env::find_candidates(a.suite, a.tasks));
    if (!bundled.empty()) return take_candidates(std::move(bundled), a.suite, suite, skipped);
  }
  return read_candidates(a.candidates, suite, skipped);
}

base::expected<int> bench(bench_arguments a) {
  QUERN_TRY(env::suite suite, find_suite(a.suite, base::share_folder("env/suites"), a.tasks));
  QUERN_TRY(a.measured, measure_of(a.measuring, suite.baseline, *suite.members.front().task.lane,
                                   !a.gpus.empty()));
  QUERN_TRY(suite.policy, policy_of(a.measuring, suite.policy));
  if (a.budget_s == 0)
    a.budget_s = env::usual_seconds(a.measured, env::evaluator_options{}.time_budget_s);
  const env::lane& lane = *suite.members.front().task.lane;
  if (lane.device != env::device_kind::gpu && !lane.on_gpus_too && !a.gpus.empty())
    return base::fail(errc::invalid_argument,
                      "--gpus is for suites that run on GPUs, {} is of lane {}: leave it out",
                      suite.name, lane.name);
  skipped_candidates skipped;
  QUERN_TRY(const auto candidates, candidates_of(a, suite, a.skip_unknown ? &skipped : nullptr));
  tell_skipped(skipped, suite);
  if (candidates.empty()) {
    fmt::print(stderr,
               "quern bench: {} holds no candidate: files TASK.ANYTHING{} or "
               "level_L_problem_P_sample_S_kernel.py, or JSON lines with task, source and id, are "
               "needed\n",
               a.candidates, lane.file_ending);
    return int{nothing};
  }
  for (const bench_candidate& one : candidates)
    QUERN_CHECK(check_baseline(a.measured, suite.members[one.member].task, !a.gpus.empty()));
  QUERN_TRY(const auto given, prepare_kernelbench(a, suite));
  QUERN_TRY(const env::suite reported, with_degenerate(suite, a.degenerate));
  if (a.out.empty()) a.out = "bench-" + suite.name + "/results.jsonl";
  const fs::path folder = fs::absolute(a.out).parent_path();
  if (a.report.empty()) a.report = folder.string();
  bench_header header;
  header.suite = suite.name;
  header.suite_hash = suite_hash(suite);
  header.lane = lane.name;
  header.protocol = env::to_text(a.measured);
  header.budget_ms = std::llround(a.budget_s * 1000);
  header.timeout_ms = std::llround(a.timeout_s * 1000);
  // What the file refuses is told before devices are opened, which takes seconds each.
  QUERN_TRY(const auto earlier, peek_results(a.out, header));
  QUERN_CHECK(matching_results(earlier, candidates, a.out));
  QUERN_TRY(const open_judges judges, open_all(a, suite, lane));
  // The report comes last: what would refuse it is told before the hours of judging.
  QUERN_CHECK(base::make_folders(folder));
  QUERN_CHECK(base::make_folders(a.report));
  header.device_class = judges.front()->device_class();
  QUERN_TRY(header.environment, judges.front()->environment_for(header.protocol));
  QUERN_TRY(auto file, results_file::open(a.out, header));
  std::signal(SIGINT, on_bench_signal);
  std::signal(SIGTERM, on_bench_signal);
  QUERN_TRY(const bench_end end, judge_all(a, judges, suite, candidates, file));

  QUERN_TRY(const bench_report report, tell_all(a, header, reported, candidates, end, given));
  if (report.without_verdict == 0) return int{done};
  // The first ones tell what is wrong; thousands would hide it.
  for (std::size_t i = 0; i < std::min<std::size_t>(end.problems.size(), 5); ++i)
    fmt::print(stderr, "quern bench: {}\n", end.problems[i]);
  fmt::print(stderr,
             "quern bench: {} of {} candidates have no verdict; the same command goes on, {} keeps "
             "the others\n",
             report.without_verdict, report.candidates, a.out);
  return int{stop_bench ? paused : failed};
}

}  // namespace

int cmd_bench(int argc, char** argv) {
  CLI::App app("quern bench: judge many candidates of a suite, and report success and speed-up");
  bench_arguments a;
  app.add_option("suite", a.suite,
                 "folder of a suite, or the name of a shipped one" + env::foreign_forms())
      ->required();
  app.add_option("--candidates", a.candidates,
                 "folder with files TASK.ANYTHING with the lane's ending: " + file_endings() +
                     ", or level_L_problem_P_sample_S_kernel.py; or JSON lines with task, source "
                     "and id; or "
                     "the file of SUITE, where candidates stand beside its tasks")
      ->required();
  app.add_option("--out", a.out,
                 "verdicts, a line each; a second run goes on with it. Default: "
                 "bench-SUITE/results.jsonl");
  app.add_option("--report", a.report,
                 "folder for report.html and report.json; default: that of --out");
  app.add_option("--write-kernelbench", a.write_kernelbench,
                 "folder for eval_results.json, pass_at_k_results.json and analysis.json in "
                 "KernelBench's form; for suites of its tasks");
  app.add_option("--kernelbench-baselines", a.kernelbench_baselines,
                 "a baseline file of KernelBench, or one of quern baselines: the report has rows "
                 "over its times, too; may be given several times")
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--degenerate", a.degenerate,
                 "names of tasks without which the figures stand a second time, with commas "
                 "between; quern tasks check finds constant_output and ignored_input")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--pass-at-k", a.pass_k,
                 "k of pass@k, such as 1,5; default: 1, 5, 10 and 100, as far as there are samples")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(whole_within(1, 1000000));
  app.add_option(
         "--gpus", a.gpus,
         lanes_on(env::device_kind::gpu) +
             ": GPUs to measure on, such as 0,1; default: all. A lane that can judge on either "
             "does so on a GPU where some are named")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(whole_within(0, 63));
  app.add_option("--core", a.core,
                 lanes_on(env::device_kind::core) + ": core to measure on; -1 chooses one")
      ->check(whole_within(-1, 4095));
  app.add_option("--compilers", a.compilers, "threads that compile ahead, for each device")
      ->check(whole_within(0, 256));
  app.add_option("--budget-s", a.budget_s, "seconds of measuring one candidate")
      ->check(number_within(0.05, 3600))
      ->default_str("the protocol's, else 0.5");
  add_timeout_option(app, a.timeout_s);
  add_source_options(app, a.tasks);
  add_measure_options(app, a.measuring);
  add_policy_options(app, a.measuring);
  app.add_flag("--skip-unknown", a.skip_unknown,
               "leave out candidates of tasks that the suite does not have");
  app.add_flag("--tasks", a.each_task, "print a line a task, too");
  app.add_flag("--best-effort", a.best_effort,
               "run although sandbox layers are missing (see quern doctor)");
  if (const auto code = parse(app, argc, argv)) return *code;
  const auto ended = bench(std::move(a));
  return ended ? *ended : report("bench", ended.error());
}

}  // namespace quern::tools
