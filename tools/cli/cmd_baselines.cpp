// quern baselines: times of the references of a suite, in KernelBench's form.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <memory>

#include <fmt/format.h>

#include "base/log.hpp"
#include "base/program.hpp"
#include "env/judge/evaluator_options.hpp"
#include "env/task/find_tasks.hpp"
#include "env/task/task_check.hpp"
#include "tools/bench/baselines_run.hpp"
#include "tools/bench/choices.hpp"
#include "tools/bench/kernelbench_names.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/parse.hpp"
#include "tools/cli/source_options.hpp"

namespace quern::tools {
namespace {

using base::errc;

struct baselines_arguments {
  std::string suite, modes = "eager", hardware, out = "baselines";
  env::reference_trials rule;
  env::source_options tasks;
  bool best_effort = false;
};

std::atomic<bool> stop_baselines = false;

/// The first signal ends after the reference that is being timed, a second one at once.
void on_baselines_signal(int number) {
  stop_baselines = true;
  std::signal(number, SIG_DFL);
}

base::expected<env::suite> suite_with_places(const baselines_arguments& a) {
  QUERN_TRY(env::suite suite, find_suite(a.suite, base::share_folder("env/suites"), a.tasks));
  if (const auto placed = suite_places(suite).check_all(); !placed)
    return base::in_context("quern baselines writes tables by KernelBench's places",
                            placed.error());
  return suite;
}

/// What times references of `lane`, and the checker that it belongs to.
base::expected<std::unique_ptr<env::task_checker>> open_timer(const baselines_arguments& a,
                                                              const env::lane& lane) {
  std::unique_ptr<env::task_checker> checker;
  if (lane.open_checker != nullptr) {
    env::evaluator_options options;
    options.sandbox_required = !a.best_effort;
    QUERN_TRY(checker, lane.open_checker(options));
  }
  if (checker != nullptr && checker->timer() != nullptr) return checker;
  return base::fail(errc::invalid_argument,
                    "lane {} times no references by themselves: use tasks of KernelBench, such as "
                    "kernelbench:1",
                    lane.name);
}

base::status check_hardware(const std::string& name) {
  constexpr std::size_t longest = 200;
  const bool printable = std::none_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
  if (name.size() <= longest && printable) return {};
  return base::fail(errc::invalid_argument,
                    "--hardware has {} bytes: at most {} printable ones; choose a shorter name",
                    name.size(), longest);
}

/// Of all modes together: a pause and a failure ask for something, whatever else was done.
struct whole_end {
  bool stopped = false, any_failed = false, any_row = false;

  void add(const baselines_end& end, const baseline_file& file) {
    stopped |= end.stopped;
    any_failed |= !end.failed.empty();
    any_row |= file.table().size() > 0;
  }
  [[nodiscard]] int code() const {
    return stopped ? paused : any_failed ? failed : any_row ? done : nothing;
  }
};

base::expected<int> baselines(baselines_arguments a) {
  QUERN_TRY(const auto modes, parse_modes(a.modes));
  QUERN_CHECK(check_hardware(a.hardware));
  QUERN_TRY(const env::suite suite, suite_with_places(a));
  std::vector<std::filesystem::path> paths;
  for (const env::reference_mode mode : modes) {
    QUERN_TRY(paths.emplace_back(), baseline_path(a.out, mode, modes.size()));
  }
  QUERN_TRY(const auto checker, open_timer(a, *suite.members.front().task.lane));
  env::reference_timer& timer = *checker->timer();
  QUERN_CHECK(check_modes(timer, modes));
  baseline_terms terms;
  terms.precision = a.tasks.precision.empty() ? "fp32" : a.tasks.precision;
  terms.hardware = a.hardware.empty() ? timer.device_class() : a.hardware;
  terms.device = timer.device();
  terms.device_class = timer.device_class();
  terms.settings = timer.settings();
  terms.warm_up = a.rule.warm_up;
  terms.trials = a.rule.most;
  terms.budget_ms = std::llround(a.rule.budget_s * 1000);
  // What any of the files refuses is told before the hours of measuring.
  std::vector<baseline_file> files;
  for (std::size_t i = 0; i < modes.size(); ++i) {
    terms.mode = name_of(modes[i]);
    QUERN_TRY(auto file, baseline_file::open(paths[i], terms));
    files.push_back(std::move(file));
  }
  std::signal(SIGINT, on_baselines_signal);
  std::signal(SIGTERM, on_baselines_signal);
  whole_end all;
  for (std::size_t i = 0; i < modes.size(); ++i) {
    const auto tell = [&](const std::string& line) {
      base::print_line(fmt::format("quern baselines: {} {}", name_of(modes[i]), line));
    };
    QUERN_TRY(const auto end,
              measure_baselines(timer, modes[i], suite, a.rule, files[i], stop_baselines, tell));
    fmt::print("{}", summary_of(end, files[i]));
    all.add(end, files[i]);
  }
  return all.code();
}

}  // namespace

int cmd_baselines(int argc, char** argv) {
  CLI::App app("quern baselines: time the references of a suite, for quern bench and KernelBench");
  baselines_arguments a;
  app.add_option("suite", a.suite, "tasks with a place in KernelBench" + env::foreign_forms())
      ->required();
  app.add_option("--modes", a.modes,
                 "with commas between: eager, compile, reduce-overhead, max-autotune, "
                 "max-autotune-no-cudagraphs, cudagraphs; a core has eager alone")
      ->capture_default_str();
  app.add_option("--hardware", a.hardware,
                 "name of this machine in the tables; default: its device class");
  app.add_option("--out", a.out,
                 "folder for a file a mode with KernelBench's names, or, for one mode, a file that "
                 "ends in .json; a second run goes on with it")
      ->capture_default_str();
  app.add_option("--trials", a.rule.most, "calls of a reference that count, at most")
      ->check(whole_within(1, 100000))
      ->capture_default_str();
  app.add_option("--budget-s", a.rule.budget_s,
                 "seconds for a reference; beyond them three calls are enough")
      ->check(number_within(0.05, 86400))
      ->capture_default_str();
  add_source_options(app, a.tasks);
  app.add_flag("--best-effort", a.best_effort,
               "run although sandbox layers are missing (see quern doctor)");
  if (const auto code = parse(app, argc, argv)) return *code;
  a.rule.least = std::min(a.rule.least, a.rule.most);
  const auto ended = baselines(std::move(a));
  return ended ? *ended : report("baselines", ended.error());
}

}  // namespace quern::tools
