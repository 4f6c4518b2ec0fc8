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

/// What became of the tasks of a command.
struct task_counts {
  int all = 0, good = 0;
  std::vector<std::string> refused, skipped;  ///< "NAME: the first reason"

  void add(const std::string& name, const env::task_report& report) {
    ++all;
    const env::task_finding* first = nullptr;
    bool only_skipped = true;
    for (const env::task_finding& one : report.findings) {
      if (!one.fatal) continue;
      only_skipped &= one.rule == "skipped";
      if (first == nullptr || first->rule == "skipped") first = &one;
    }
    if (first == nullptr)
      ++good;
    else
      (only_skipped ? skipped : refused).push_back(name + ": " + first->text);
  }
};

std::string_view word_for(const env::task_report& report) {
  if (report.ok()) return "ok";
  const bool skipped =
      std::none_of(report.findings.begin(), report.findings.end(),
                   [](const env::task_finding& one) { return one.fatal && one.rule != "skipped"; });
  return skipped ? "SKIPPED" : "REFUSED";
}

/// Prints the findings of one task.
base::expected<env::task_report> check_task(const asked_task& asked, const env::task& task,
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
             task.name, word_for(result), static_cast<double>(result.baseline_ns) / 1e3,
             static_cast<double>(result.floor_ns) / 1e3, 100 * result.worst_error, result.worst_at);
  for (const std::string& fact : result.facts)
    fmt::print("  {}\n", fact);
  for (const env::task_finding& finding : result.findings) {
    fmt::print("  {} {}: {}\n", finding.fatal ? "refused" : "advice ", finding.rule, finding.text);
  }
  return result;
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

void tell_counts(const task_counts& counts) {
  for (const auto& [word, names] :
       {std::pair("refused", &counts.refused), std::pair("skipped", &counts.skipped)}) {
    if (counts.all > 1 && !names->empty()) fmt::print("{}:\n", word);
    for (const std::string& one : counts.all > 1 ? *names : std::vector<std::string>())
      fmt::print("  {}\n", one);
  }
  fmt::print("{} tasks, {} refused, {} skipped, {} as they should be\n", counts.all,
             counts.refused.size(), counts.skipped.size(), counts.good);
}

}  // namespace

int check_tasks(const std::vector<std::string>& paths, const check_options& how,
                const env::source_options& from) {
  env::evaluator_options options;
  options.sandbox_required = how.sandbox_required;
  options.gpu = how.gpu.value_or(0);
  options.on_gpu = how.gpu.has_value();
  options.task_seconds = how.task_seconds;
  options.task_memory_bytes = how.task_gib << 30;
  checkers by_lane(std::move(options));
  const auto asked = asked_tasks(paths, from);
  if (!asked) return report("tasks", asked.error());
  task_counts counts;
  for (const asked_task& one : *asked) {
    const auto task = one.read();
    base::expected<env::task_report> found = env::task_report();
    if (task) {
      // Without its checker no other task of the lane can be checked, either.
      const auto checker = by_lane.of(*task->lane);
      if (!checker) return report("tasks", checker.error());
      found = check_task(one, *task, **checker);
    } else {
      found = tl::make_unexpected(task.error());
    }
    if (!found) {
      // One task is what was asked for; of a suite the others are checked, too.
      if (asked->size() == 1) return report("tasks", found.error());
      fmt::print("{}: REFUSED  {}\n", one.name(), found.error().message);
      env::task_report unread;
      unread.findings.push_back({true, "failed", found.error().message});
      found = std::move(unread);
    }
    counts.add(one.name(), *found);
    // A suite takes minutes: what is known is shown.
    std::fflush(stdout);
  }
  tell_counts(counts);
  return counts.good == counts.all || how.best_effort ? done : failed;
}

}  // namespace quern::tools
