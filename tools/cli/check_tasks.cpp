#include "tools/cli/check_tasks.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "env/judge/evaluator_options.hpp"
#include "env/task/find_tasks.hpp"
#include "env/task/task_check.hpp"
#include "env/task/task_codec.hpp"
#include "tools/cli/command.hpp"

namespace quern::tools {
namespace {

namespace fs = std::filesystem;

/// The checkers of the lanes, opened when the first task needs them.
class checkers {
 public:
  explicit checkers(env::evaluator_options options) : options_(std::move(options)) {}
  base::expected<env::task_checker*> of(const env::lane& which) {
    if (which.open_checker == nullptr)
      return base::fail(base::errc::invalid_argument,
                        "lane {} has no checks of its tasks, so they can only be tried: quern eval "
                        "with candidates that are right and wrong",
                        which.name);
    auto& opened = opened_[&which];
    if (!opened) {
      QUERN_TRY(opened, which.open_checker(options_));
    }
    return opened.get();
  }

 private:
  env::evaluator_options options_;
  std::map<const env::lane*, std::unique_ptr<env::task_checker>> opened_;
};

/// A task that is to be checked: a file, or a task of others.
struct asked_task {
  fs::path file;                  ///< empty for a task of others
  std::optional<env::task> task;  ///< a file is read when its turn comes

  [[nodiscard]] base::expected<env::task> read() const {
    return task ? base::expected<env::task>(*task) : env::load_task(file);
  }
  /// For messages.
  [[nodiscard]] std::string name() const { return task ? task->name : file.filename().string(); }
};

/// Prints the findings of one task; true if it may be used.
base::expected<bool> check_task(const asked_task& asked, const env::task& task,
                                env::task_checker& checker) {
  auto checked = checker.check(task, 1);
  if (!checked)
    return base::in_context(asked.task ? task.name : asked.file.string(), checked.error());
  env::task_report& result = *checked;
  if (!asked.task && asked.file.filename() != task.name + ".task.yaml") {
    result.findings.push_back(
        {false, "file_name",
         fmt::format("the task is called {}; messages name the task, so call its file {}.task.yaml",
                     task.name, task.name)});
  }
  fmt::print("{}: {}  baseline {:.1f} us, floor {:.1f} us, uses {:.2f} % of its tolerance {}\n",
             task.name, result.ok() ? "ok" : "REFUSED",
             static_cast<double>(result.baseline_ns) / 1e3,
             static_cast<double>(result.floor_ns) / 1e3, 100 * result.worst_error, result.worst_at);
  for (const std::string& fact : result.facts)
    fmt::print("  {}\n", fact);
  for (const env::task_finding& finding : result.findings) {
    fmt::print("  {} {}: {}\n", finding.fatal ? "refused" : "advice ", finding.rule, finding.text);
  }
  return result.ok();
}

void tell_suite(const env::suite& suite) {
  fmt::print("{}: allows {}; speed-up over {}; claims above {:g}x are measured again\n", suite.name,
             env::to_text(suite.policy), env::name_of(suite.baseline),
             static_cast<double>(suite.recheck_above_e2) / 100);
}

/// What `paths` name: task files in the order of their paths, then tasks of others. Says what
/// suites allow.
base::expected<std::vector<asked_task>> asked_tasks(const std::vector<std::string>& paths,
                                                    const env::source_options& options) {
  std::vector<fs::path> files;
  std::vector<asked_task> others;
  for (const std::string& path : paths) {
    std::error_code ignored;
    const bool foreign = env::names_foreign_tasks(path, options);
    if (!foreign && !fs::is_directory(path, ignored)) {
      files.emplace_back(path);
      continue;
    }
    QUERN_TRY(env::suite suite, env::find_tasks(path, options));
    tell_suite(suite);
    if (foreign) {
      for (env::suite_member& member : suite.members)
        others.push_back({{}, std::move(member.task)});
      continue;
    }
    for (const auto& entry : fs::directory_iterator(path, ignored)) {
      if (entry.path().string().ends_with(".task.yaml")) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<asked_task> all;
  for (fs::path& file : files)
    all.push_back({std::move(file), std::nullopt});
  std::move(others.begin(), others.end(), std::back_inserter(all));
  return all;
}

}  // namespace

int check_tasks(const std::vector<std::string>& paths, bool sandbox_required, int gpu,
                const env::source_options& from) {
  env::evaluator_options options;
  options.sandbox_required = sandbox_required;
  options.gpu = gpu;
  checkers by_lane(std::move(options));
  const auto asked = asked_tasks(paths, from);
  if (!asked) return report("tasks", asked.error());
  int refused = 0;
  for (const asked_task& one : *asked) {
    const auto task = one.read();
    base::expected<bool> good = false;
    if (task) {
      // Without its checker no other task of the lane can be checked, either.
      const auto checker = by_lane.of(*task->lane);
      if (!checker) return report("tasks", checker.error());
      good = check_task(one, *task, **checker);
    } else {
      good = tl::make_unexpected(task.error());
    }
    if (!good) {
      // One task is what was asked for; of a suite the others are checked, too.
      if (asked->size() == 1) return report("tasks", good.error());
      fmt::print("{}: REFUSED  {}\n", one.name(), good.error().message);
    }
    refused += good && *good ? 0 : 1;
    // A suite takes minutes: what is known is shown.
    std::fflush(stdout);
  }
  fmt::print("{} tasks, {} refused\n", asked->size(), refused);
  return refused == 0 ? done : failed;
}

}  // namespace quern::tools
