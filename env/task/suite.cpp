// Reads suites.
#include "env/task/suite.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include <fmt/ranges.h>

#include "base/file.hpp"
#include "base/hash.hpp"
#include "base/text.hpp"
#include "env/task/task_codec.hpp"
#include "env/task/yaml_reader.hpp"

namespace quern::env {

namespace {

constexpr std::size_t max_suite_bytes = 1024 * 1024;
constexpr std::string_view task_suffix = ".task.yaml";

constexpr auto suite_keys = std::to_array<std::string_view>(
    {"quern_suite", "split", "recheck_above", "policy", "baseline"});
constexpr auto split_keys = std::to_array<std::string_view>({"by", "held_out"});
constexpr auto split_names = std::to_array<std::string_view>({"family", "composition", "task"});
constexpr auto policy_keys = std::to_array<std::string_view>(
    {"library_calls", "lower_precision", "graphs", "host_entry", "by_evidence"});

base::status read_flag(const yaml_map& map, std::string_view key, bool& value) {
  if (!map.has(key)) return {};
  QUERN_TRY(value, map.boolean(key));
  return {};
}

base::status read_split(const yaml_map& map, suite& result) {
  if (!map.has("split")) return {};
  QUERN_TRY(const YAML::Node node, map.node("split"));
  QUERN_TRY(const yaml_map split, yaml_map::open(node, "split", split_keys));
  QUERN_TRY(const std::string by, split.text("by"));
  const auto found = std::find(split_names.begin(), split_names.end(), by);
  if (found == split_names.end()) {
    return base::fail(base::errc::invalid_argument, "split: 'by' is '{}'{}; known are {}", by,
                      base::did_you_mean(by, split_names), fmt::join(split_names, ", "));
  }
  result.split_by = static_cast<split_kind>(found - split_names.begin());
  QUERN_TRY(result.held_out, split.texts("held_out"));
  return {};
}

/// The header part; leaves recheck_above_e2 at 0 where the file does not say.
base::status read_header(const YAML::Node& root, suite& result) {
  QUERN_TRY(const yaml_map any, yaml_map::open(root, "suite.yaml", {}));
  QUERN_CHECK(check_version(any, "quern_suite", suite_version));
  QUERN_TRY(const yaml_map map, yaml_map::open(root, "suite.yaml", suite_keys));
  QUERN_CHECK(read_split(map, result));
  result.recheck_above_e2 = 0;
  if (map.has("recheck_above")) {
    QUERN_TRY(const double above, map.number("recheck_above"));
    if (above < 1 || above > 1e6) {
      return base::fail(base::errc::invalid_argument,
                        "suite.yaml: 'recheck_above' is {}, it must be from 1 to 1000000", above);
    }
    result.recheck_above_e2 = std::llround(above * 100);
  }
  if (map.has("baseline")) {
    QUERN_TRY(const std::string baseline, map.text("baseline"));
    const auto known = parse_baseline(baseline);
    if (!known)
      return base::fail(
          base::errc::invalid_argument, "suite.yaml: 'baseline' is '{}'{}; known are {}", baseline,
          base::did_you_mean(baseline, all_baselines()), fmt::join(all_baselines(), ", "));
    result.baseline = *known;
  }
  if (!map.has("policy")) return {};
  QUERN_TRY(const YAML::Node node, map.node("policy"));
  QUERN_TRY(const yaml_map policy, yaml_map::open(node, "policy", policy_keys));
  QUERN_CHECK(read_flag(policy, "library_calls", result.policy.library_calls));
  QUERN_CHECK(read_flag(policy, "lower_precision", result.policy.lower_precision));
  QUERN_CHECK(read_flag(policy, "graphs", result.policy.graphs));
  QUERN_CHECK(read_flag(policy, "host_entry", result.policy.host_entry));
  return read_flag(policy, "by_evidence", result.policy.by_evidence);
}

base::expected<std::vector<std::filesystem::path>> task_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> result;
  std::error_code problem;
  for (std::filesystem::directory_iterator at(folder, problem), end; !problem && at != end;
       at.increment(problem)) {
    if (at->path().filename().string().ends_with(task_suffix)) result.push_back(at->path());
  }
  if (problem)
    return base::fail(base::errc::io, "cannot list the suite {}: {}", folder.string(),
                      problem.message());
  std::sort(result.begin(), result.end());
  return result;
}

base::status read_members(const std::filesystem::path& folder, suite& result) {
  QUERN_TRY(const auto files, task_files(folder));
  for (const std::filesystem::path& file : files) {
    QUERN_TRY(task subject, load_task(file));
    if (file.filename().string() != subject.name + std::string(task_suffix)) {
      return base::fail(base::errc::invalid_argument, "{} holds the task '{}': name the file {}{}",
                        file.string(), subject.name, subject.name, task_suffix);
    }
    if (!result.members.empty() && result.members.front().task.lane != subject.lane) {
      return base::fail(base::errc::invalid_argument,
                        "{} is of lane {}, the tasks before it are not: one lane a suite",
                        file.string(), subject.lane->name);
    }
    std::string id = task_id(subject);
    result.members.push_back({std::move(subject), std::move(id), false});
  }
  if (result.members.empty()) {
    return base::fail(base::errc::invalid_argument,
                      "the suite {} holds no *{} file: add one with `quern tasks new`",
                      folder.string(), task_suffix);
  }
  return {};
}

std::string split_key(const suite_member& member, split_kind by) {
  if (by == split_kind::family) return member.task.family;
  return by == split_kind::task ? member.task.name : composition_of(member.task);
}

/// Marks what is held out. For splits by composition an entry names one task and holds out all that
/// share its composition.
base::status mark_held_out(suite& result) {
  for (const std::string& entry : result.held_out) {
    std::string key = entry;
    if (result.split_by == split_kind::composition) {
      const auto named =
          std::find_if(result.members.begin(), result.members.end(),
                       [&](const suite_member& one) { return one.task.name == entry; });
      if (named != result.members.end()) key = composition_of(named->task);
    }
    bool found = false;
    for (suite_member& member : result.members) {
      if (split_key(member, result.split_by) != key) continue;
      member.held_out = true;
      found = true;
    }
    if (!found) {
      std::vector<std::string> keys;
      for (const suite_member& one : result.members) {
        keys.push_back(result.split_by == split_kind::family ? one.task.family : one.task.name);
      }
      const std::vector<std::string_view> known(keys.begin(), keys.end());
      return base::fail(base::errc::invalid_argument,
                        "suite.yaml: held_out names '{}', which is no {} of the suite{}", entry,
                        split_names[static_cast<std::size_t>(result.split_by)],
                        base::did_you_mean(entry, known));
    }
  }
  return {};
}

/// Whether every task can be measured against what the suite says.
base::status check_baseline(const suite& what) {
  for (const suite_member& member : what.members) {
    const task& one = member.task;
    if (what.baseline == baseline_choice::plain && !one.body->has_plain())
      return base::fail(base::errc::invalid_argument,
                        "suite.yaml: 'baseline' is plain, but task {} has no plain kernel: add "
                        "`plain:` to it, or choose another baseline",
                        one.name);
    // Where it is measured is not known here: what any device has is let through.
    if (auto fits = env::check_baseline(one, one.lane->on_gpus_too != nullptr, what.baseline);
        !fits)
      return base::in_context("suite.yaml: 'baseline'", std::move(fits).error());
  }
  return {};
}

/// What suite.yaml alone says; `result` has no members yet.
base::status read_suite_file(const std::filesystem::path& folder, suite& result) {
  // "suites/cpu/" and "." name a folder, too.
  std::error_code unused;
  std::filesystem::path named = std::filesystem::absolute(folder, unused).lexically_normal();
  if (!named.has_filename()) named = named.parent_path();
  result.name = named.filename().string();
  QUERN_TRY(const std::string text, base::read_file(folder / "suite.yaml", max_suite_bytes));
  QUERN_TRY(const YAML::Node root, load_yaml("suite.yaml", text, max_suite_bytes));
  return guard_yaml("suite.yaml", [&] { return read_header(root, result); });
}

base::expected<suite> read_suite(const std::filesystem::path& folder) {
  suite result;
  QUERN_CHECK(read_suite_file(folder, result));
  QUERN_CHECK(read_members(folder, result));
  QUERN_CHECK(check_baseline(result));
  if (result.recheck_above_e2 == 0) {
    result.recheck_above_e2 = result.members.front().task.lane->usual_recheck_above_e2;
  }
  QUERN_CHECK(mark_held_out(result));
  return result;
}

}  // namespace

base::expected<suite> load_suite(const std::filesystem::path& folder) {
  auto result = read_suite(folder);
  if (!result && result.error().code == base::errc::not_found)
    result.error().message += "; a suite is a folder with suite.yaml and *.task.yaml files";
  if (!result) return base::in_context("suite " + folder.string(), std::move(result).error());
  return result;
}

base::expected<std::optional<suite>> suite_beside(const std::filesystem::path& task_file) {
  std::filesystem::path folder = task_file.parent_path();
  if (folder.empty()) folder = ".";
  std::error_code unused;
  if (!std::filesystem::exists(folder / "suite.yaml", unused)) return std::optional<suite>();
  suite result;
  if (auto read = read_suite_file(folder, result); !read)
    return base::in_context("suite " + folder.string(), std::move(read).error());
  return std::optional<suite>(std::move(result));
}

base::expected<suite> suite_of_file(const std::filesystem::path& task_file) {
  QUERN_TRY(auto beside, suite_beside(task_file));
  suite made;
  if (beside) made = std::move(*beside);
  if (!beside) made.policy.graphs = true;  // as evaluator_options: what no suite forbids
  if (!beside) made.recheck_above_e2 = 0;
  made.held_out.clear();
  QUERN_TRY(task subject, load_task(task_file));
  made.name = subject.name;
  std::string id = task_id(subject);
  made.members.push_back({std::move(subject), std::move(id)});
  return made;
}

std::string composition_of(const task& what) {
  return base::to_hex(base::hasher().add(what.family).add(what.reference).digest());
}

}  // namespace quern::env
