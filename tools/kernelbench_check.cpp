// Whether the tasks of KernelBench's tree are described as they are: their inputs, results and
// weights beside a file of facts.
//
//   kernelbench_check TREE --facts FILE [--only L1/93,...] [--run-gib G] [--task-s S]
//                     [--memory-gib G] [--sandbox best_effort|required]
//
// Every module of levels 1 to 3 runs in the sandbox. One whose inputs, results and weights have at
// most G GiB runs with values, which shows whether it draws random numbers or keeps state; any
// other on tensors without memory. FILE is JSON: an object with an entry "L1/1" for each task,
// whose keys read_facts() names. Ends with 1 where a task differs from the facts or a named
// irregularity was not seen.
#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "env/lanes/pytorch/module_task.hpp"
#include "env/lanes/pytorch/process/python_zygote.hpp"
#include "env/lanes/pytorch/pytorch_lane.hpp"
#include "env/lanes/pytorch/tasks/module_tree.hpp"
#include "env/lanes/pytorch/tasks/pytorch_body.hpp"
#include "tools/kernelbench_facts.hpp"

namespace quern::tools {
namespace {

constexpr std::int64_t gib = std::int64_t{1} << 30;
constexpr std::size_t most_facts_bytes = std::size_t{16} << 20;
constexpr int levels = 3;

struct check_options {
  std::string tree, facts;
  std::vector<std::string> only;
  double run_gib = static_cast<double>(env::most_call_bytes) / gib;
  double memory_gib = 6;
  double task_s = 30;
  std::string sandbox = "required";
};

enum class trait {
  bool_input,
  whole_input,
  value_input,
  whole_output,
  draws,
  draws_unseen,
  resets_state,
  not_contiguous
};

struct irregular_task {
  const char* key;
  trait what;
  const char* told;
  bool needs_values;
};

constexpr irregular_task irregular_tasks[] = {
    {"L1/93", trait::bool_input, "a bool input", false},
    {"L1/95", trait::whole_input, "an int64 input", false},
    {"L1/5", trait::value_input, "a number as input", false},
    {"L1/51", trait::whole_output, "an int64 output", false},
    {"L1/52", trait::whole_output, "an int64 output", false},
    {"L2/66", trait::draws, "random numbers in forward", true},
    {"L2/83", trait::draws_unseen, "random numbers in forward, hidden by a constant output", true},
    {"L3/33", trait::resets_state, "a tensor outside of state_dict, which the second input resets",
     true},
    {"L3/35", trait::draws, "random numbers in forward", true},
    {"L3/31", trait::not_contiguous, "an output that is not contiguous", false},
    {"L3/49", trait::not_contiguous, "an output that is not contiguous", false}};

bool has_trait(const env::module_sheet& sheet, trait what) {
  const auto any_input = [&](auto matches) {
    return std::any_of(sheet.arguments.begin(), sheet.arguments.end(), matches);
  };
  const auto any_output = [&](auto matches) {
    return std::any_of(sheet.outputs.begin(), sheet.outputs.end(), matches);
  };
  switch (what) {
    case trait::bool_input:
      return any_input([](const auto& one) { return one.value.empty() && one.tensor.is_bool; });
    case trait::whole_input:
      return any_input(
          [](const auto& one) { return one.value.empty() && one.tensor.type == env::dtype::i64; });
    case trait::value_input:
      return any_input([](const auto& one) { return !one.value.empty(); });
    case trait::whole_output:
      return any_output([](const auto& one) { return one.tensor.type == env::dtype::i64; });
    case trait::draws:
      return sheet.draws;
    case trait::draws_unseen:
      return !sheet.draws && sheet.is_constant;
    case trait::resets_state:
      return !sheet.keeps_state &&
             std::any_of(sheet.weights.begin(), sheet.weights.end(),
                         [](const auto& one) { return one.kind == "attribute"; });
    case trait::not_contiguous:
      return any_output([](const auto& one) { return !one.contiguous; });
  }
  return false;
}

struct task_outcome {
  std::optional<env::module_sheet> without_values, with_values;
  std::string failed_without, failed_with;  ///< why there is none
  bool too_large = false;                   ///< it was not tried with values
  std::vector<std::string> different;

  [[nodiscard]] const env::module_sheet* sheet() const {
    if (with_values) return &*with_values;
    return without_values ? &*without_values : nullptr;
  }
};

class tree_check {
 public:
  tree_check(env::python_zygote zygote, check_options options)
      : zygote_(std::move(zygote)), options_(std::move(options)) {}

  base::expected<task_outcome> look(const std::string& text, const module_facts& wanted);

 private:
  /// The sheet of a module in a process of its own, or why there is none.
  base::expected<std::optional<env::module_sheet>> describe(const std::string& path, bool values,
                                                            std::string& failed);

  env::python_zygote zygote_;
  check_options options_;
};

base::expected<std::optional<env::module_sheet>> tree_check::describe(const std::string& path,
                                                                      bool values,
                                                                      std::string& failed) {
  const env::question_limits limits{options_.task_s, 60 + 4 * options_.task_s};
  env::python_start how;
  how.read_only = {path};
  how.memory_bytes = static_cast<std::int64_t>(options_.memory_gib * gib);
  QUERN_TRY(auto child, zygote_.fork(how));
  const auto give_up = [&](const env::runner_failure& why) {
    failed = base::one_line(why.text);
    if (why.failure_kind == env::runner_failure::kind::timeout)
      failed = fmt::format("more than {:.0f} s of CPU", options_.task_s);
    else if (zygote_.end(child).out_of_memory)
      failed = fmt::format("more than {:.1f} GiB of memory", options_.memory_gib);
    return std::nullopt;
  };
  if (const auto loaded = child.load(path, limits); !loaded) return give_up(loaded.error());
  const env::module_making making{"fp32", 42};
  const auto text =
      values ? child.describe(making, limits) : child.describe_without_values(making, limits);
  if (!text) return give_up(text.error());
  auto sheet = env::parse_module_sheet(*text);
  if (!sheet) {
    failed = sheet.error().message;
    return std::nullopt;
  }
  return std::move(*sheet);
}

base::expected<task_outcome> tree_check::look(const std::string& text, const module_facts& wanted) {
  QUERN_TRY(const auto file, env::write_module("reference.py", text));
  const std::string path = file.path.string();
  task_outcome seen;
  seen.too_large = static_cast<double>(wanted.bytes) > options_.run_gib * gib;
  if (!seen.too_large) {
    QUERN_TRY(seen.with_values, describe(path, true, seen.failed_with));
  }
  if (!seen.with_values) {
    QUERN_TRY(seen.without_values, describe(path, false, seen.failed_without));
  }
  for (const auto* sheet : {&seen.without_values, &seen.with_values}) {
    if (!*sheet) continue;
    for (std::string& one : differences(facts_of(**sheet), wanted, sheet == &seen.with_values))
      if (std::find(seen.different.begin(), seen.different.end(), one) == seen.different.end())
        seen.different.push_back(std::move(one));
  }
  return seen;
}

struct level_figures {
  int tasks = 0, right = 0, different = 0, undescribed = 0, ran = 0, too_large = 0, failed = 0;
};

/// Whether all that was asked is as the facts say.
class tree_report {
 public:
  void add(const std::string& key, int level, const task_outcome& seen) {
    level_figures& at = figures_[level];
    ++at.tasks;
    if (seen.sheet() == nullptr) {
      ++at.undescribed;
      std::printf("%-6s not described: %s\n", key.c_str(), seen.failed_without.c_str());
    } else {
      ++(seen.different.empty() ? at.right : at.different);
      if (seen.different.empty())
        std::printf("%-6s right%s\n", key.c_str(), seen.with_values ? ", ran with values" : "");
    }
    for (const std::string& one : seen.different)
      std::printf("%-6s different: %s\n", key.c_str(), one.c_str());
    at.ran += seen.with_values.has_value();
    at.too_large += seen.too_large;
    if (!seen.too_large && !seen.with_values && seen.sheet() != nullptr) {
      ++at.failed;
      std::printf("%-6s did not run with values: %s\n", key.c_str(), seen.failed_with.c_str());
    }
    look_for_irregularities(key, seen);
    std::fflush(stdout);
  }

  bool print() const {
    std::printf("\n%-6s %6s %6s %10s %14s %16s %10s %14s\n", "level", "tasks", "right", "different",
                "not described", "ran with values", "too large", "did not run");
    bool good = true;
    for (const auto& [level, at] : figures_) {
      std::printf("%-6d %6d %6d %10d %14d %16d %10d %14d\n", level, at.tasks, at.right,
                  at.different, at.undescribed, at.ran, at.too_large, at.failed);
      good &= at.different == 0 && at.undescribed == 0;
    }
    std::printf("\n");
    for (const auto& [key, line] : irregular_)
      std::printf("%-6s %s\n", key.c_str(), line.c_str());
    return good && !missed_;
  }

 private:
  void look_for_irregularities(const std::string& key, const task_outcome& seen) {
    for (const irregular_task& one : irregular_tasks) {
      if (key != one.key) continue;
      const env::module_sheet* sheet =
          one.needs_values ? (seen.with_values ? &*seen.with_values : nullptr) : seen.sheet();
      if (sheet == nullptr) {
        const char* why = seen.too_large            ? "too large for --run-gib"
                          : seen.sheet() == nullptr ? seen.failed_without.c_str()
                                                    : seen.failed_with.c_str();
        irregular_[key] = fmt::format("{}: not looked at: {}", one.told, why);
        continue;
      }
      const bool there = has_trait(*sheet, one.what);
      missed_ |= !there;
      irregular_[key] = fmt::format("{}: {}", one.told, there ? "seen" : "NOT seen");
    }
  }

  std::map<int, level_figures> figures_;
  std::map<std::string, std::string> irregular_;
  bool missed_ = false;
};

base::expected<bool> check(const check_options& options) {
  QUERN_TRY(const auto text, base::read_file(options.facts, most_facts_bytes));
  QUERN_TRY(const auto facts, base::parse_json(text, 16));
  const auto mode =
      options.sandbox == "required" ? env::sandbox_mode::required : env::sandbox_mode::best_effort;
  QUERN_TRY(auto zygote, env::python_zygote::start(mode));
  std::printf("Python %s\n", zygote.versions().c_str());
  tree_check with(std::move(zygote), options);
  tree_report report;
  env::source_options source;
  source.kernelbench = options.tree;
  QUERN_TRY(
      const auto suite,
      env::read_kernelbench(env::pytorch_lane, fmt::format("kernelbench:1-{}", levels), source));
  std::map<std::pair<int, int>, const env::task*> tasks;
  for (const auto& member : suite.members)
    if (const auto& place = env::pytorch_of(member.task).place)
      tasks[{place->level, place->problem}] = &member.task;
  for (const auto& [at, task] : tasks) {
    const std::string key = fmt::format("L{}/{}", at.first, at.second);
    if (!options.only.empty() &&
        std::find(options.only.begin(), options.only.end(), key) == options.only.end())
      continue;
    if (!facts.contains(key))
      return base::fail(base::errc::not_found, "{} has no entry '{}'", options.facts, key);
    QUERN_TRY(const auto wanted, read_facts(facts[key]));
    QUERN_TRY(const auto seen, with.look(task->reference, wanted));
    report.add(key, at.first, seen);
  }
  return report.print();
}

}  // namespace
}  // namespace quern::tools

int main(int argc, char** argv) {
  CLI::App app{"Compares the tasks of KernelBench's tree with a file of facts.",
               "kernelbench_check"};
  quern::tools::check_options options;
  app.add_option("TREE", options.tree, "folder of KernelBench's tree")->required();
  app.add_option("--facts", options.facts, "JSON with an entry for each task")->required();
  app.add_option("--only", options.only, "tasks to look at, such as L1/93; default: all")
      ->delimiter(',');
  app.add_option("--run-gib", options.run_gib,
                 "largest inputs, results and weights of a task that is run with values")
      ->capture_default_str();
  app.add_option("--memory-gib", options.memory_gib, "memory of a module's process")
      ->capture_default_str();
  app.add_option("--task-s", options.task_s, "CPU seconds of a module's question")
      ->capture_default_str();
  app.add_option("--sandbox", options.sandbox, "required or best_effort")
      ->check(CLI::IsMember({"required", "best_effort"}))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const auto good = quern::tools::check(options);
  if (!good) {
    std::fprintf(stderr, "kernelbench_check: %s\n", good.error().message.c_str());
    return 2;
  }
  return *good ? 0 : 1;
}
