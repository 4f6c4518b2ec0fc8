#include "tools/bench/kernelbench_files.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "base/file.hpp"
#include "tools/bench/kernelbench_names.hpp"
#include "tools/bench/kernelbench_scores.hpp"
#include "tools/bench/python_json.hpp"

namespace quern::tools {
namespace {

namespace fs = std::filesystem;
using base::errc;
using base::ordered_json;

constexpr std::string_view eval_file = "eval_results.json", pass_file = "pass_at_k_results.json",
                           analysis_file = "analysis.json",
                           over_file = "analysis_over_baselines.json";
constexpr std::size_t max_eval_bytes = std::size_t{1} << 30U;
constexpr int deepest_eval_results = 16;

/// Members of a level by problem.
std::map<int, std::size_t> problems_of(const env::suite& suite, int level) {
  std::map<int, std::size_t> found;
  for (std::size_t i = 0; i < suite.members.size(); ++i)
    if (const auto& place = suite.members[i].place; place && place->level == level)
      found[place->problem] = i;
  return found;
}

fs::path folder_of(const fs::path& folder, int level, std::size_t levels) {
  return levels == 1 ? folder : folder / fmt::format("level{}", level);
}

/// Sample 0 of a problem, which is all that their analysis looks at; null: none.
const bench_attempt* judged_first(const std::vector<bench_attempt>& attempts) {
  if (attempts.empty() || attempts.front().sample != 0) return nullptr;
  return attempts.front().verdict == nullptr ? nullptr : &attempts.front();
}

scored_problem scored(const bench_attempt* first, std::optional<double> baseline_mean) {
  scored_problem one;
  one.correct = first != nullptr && is_correct(*first->verdict);
  if (!one.correct) return one;
  // Not timed: a quotient below 0, as theirs is.
  const auto runtime = candidate_ms(*first->verdict), baseline = baseline_ms(*first->verdict);
  one.runtime_ms = runtime ? runtime->mean : -1;
  one.baseline_ms = baseline_mean ? *baseline_mean : baseline ? baseline->mean : 1;
  return one;
}

/// Whether Quern wrote an eval_results.json: every entry has its verdict.
bool is_ours(const base::json& eval_results) {
  if (!eval_results.is_object()) return false;
  for (const auto& [problem, entries] : eval_results.items()) {
    if (!entries.is_array()) return false;
    for (const auto& entry : entries) {
      const auto metadata = entry.is_object() ? entry.find("metadata") : entry.end();
      if (!entry.is_object() || metadata == entry.end() || !metadata->is_object() ||
          !metadata->contains("quern"))
        return false;
    }
  }
  return true;
}

base::status check_level_folder(const fs::path& folder) {
  std::error_code unused;
  std::string found;
  for (const std::string_view file : {eval_file, pass_file, analysis_file, over_file})
    if (fs::exists(folder / file, unused)) found = file;
  if (found.empty()) return {};
  const auto text = base::read_file(folder / eval_file, max_eval_bytes);
  const auto there = text ? base::parse_json(*text, deepest_eval_results)
                          : base::expected<base::json>(tl::make_unexpected(text.error()));
  if (there && is_ours(*there)) return {};
  return base::fail(errc::already_exists,
                    "{} is there, and not from quern, so it is not written over: name another "
                    "folder with --write-kernelbench",
                    (folder / found).string());
}

ordered_json pass_metadata(const ordered_json& problems, std::span<const std::int64_t> pass_k) {
  std::int64_t with_samples = 0, samples = 0, correct = 0;
  for (const auto& [problem, one] : problems.items()) {
    const auto total = one["total_samples"].get<std::int64_t>();
    with_samples += total > 0 ? 1 : 0;
    samples += total;
    correct += one["correct_samples"].get<std::int64_t>();
  }
  ordered_json metadata = {{"total_problems", problems.size()},
                           {"problems_with_samples", with_samples},
                           {"total_evaluated_samples", samples},
                           {"total_correct_samples", correct}};
  for (const std::int64_t k : pass_k) {
    const std::string key = fmt::format("pass@{}", k);
    metadata[key + "_count"] = std::count_if(problems.begin(), problems.end(),
                                             [&](const auto& one) { return one.contains(key); });
  }
  return metadata;
}

ordered_json pass_averages(const ordered_json& problems, std::span<const std::int64_t> pass_k) {
  ordered_json averages = ordered_json::object();
  if (problems.empty()) return averages;
  for (const std::int64_t k : pass_k) {
    const std::string key = fmt::format("pass@{}", k);
    double sum = 0;
    for (const auto& one : problems)
      if (one.contains(key)) sum += one[key].get<double>();
    averages["avg_" + key] = sum / static_cast<double>(problems.size());
  }
  return averages;
}

/// Of the first file of baselines, of the second, and so on.
std::string over_file_of(std::size_t number) {
  return number == 1 ? std::string(over_file)
                     : fmt::format("analysis_over_baselines_{}.json", number);
}

base::status write_level(const fs::path& folder, const kernelbench_run& run, int level) {
  QUERN_CHECK(base::make_folders(folder));
  std::error_code unused;
  const std::string run_name = fs::absolute(folder, unused).lexically_normal().filename().string();
  const ordered_json results = eval_results_of(run, level);
  QUERN_CHECK(base::write_file_atomic(folder / eval_file, python_json(results, 4)));
  std::size_t most = 0;
  for (const auto& [problem, member] : problems_of(run.suite, level))
    most = std::max(most, run.attempts[member].size());
  // Theirs writes the file where more than one sample a problem was asked for.
  std::optional<ordered_json> pass;
  if (most > 1) {
    pass = pass_at_k_results_of(results, run.pass_k);
    QUERN_CHECK(base::write_file_atomic(folder / pass_file, python_json(*pass, 2)));
  } else {
    fs::remove(folder / pass_file, unused);
  }
  const ordered_json* passed = pass ? &*pass : nullptr;
  QUERN_CHECK(base::write_file_atomic(
      folder / analysis_file,
      python_json(analysis_of(run, level, run_name, results, nullptr, passed), 2)));
  std::size_t number = 1;
  for (const kernelbench_baselines& given : run.given)
    QUERN_CHECK(base::write_file_atomic(
        folder / over_file_of(number++),
        python_json(analysis_of(run, level, run_name, results, &given, passed), 2)));
  // Those of an earlier command, which was given more.
  while (fs::remove(folder / over_file_of(number), unused))
    ++number;
  return {};
}

}  // namespace

ordered_json eval_results_of(const kernelbench_run& run, int level) {
  ordered_json results = ordered_json::object();
  for (const auto& [problem, member] : problems_of(run.suite, level)) {
    ordered_json entries = ordered_json::array();
    for (const bench_attempt& one : run.attempts[member])
      if (one.verdict != nullptr) entries.push_back(kernelbench_entry(one, run.device_class));
    if (!entries.empty()) results[std::to_string(problem)] = std::move(entries);
  }
  return results;
}

ordered_json pass_at_k_results_of(const ordered_json& eval_results,
                                  std::span<const std::int64_t> pass_k) {
  ordered_json problems = ordered_json::object();
  for (const auto& [problem, entries] : eval_results.items()) {
    const auto samples = static_cast<std::int64_t>(entries.size());
    const std::int64_t correct = std::count_if(entries.begin(), entries.end(), [](const auto& one) {
      return one["correctness"].template get<bool>() && one["compiled"].template get<bool>();
    });
    ordered_json one = {{"total_samples", samples}, {"correct_samples", correct}};
    for (const std::int64_t k : pass_k) {
      const std::int64_t drawn = std::min(k, samples);
      one[fmt::format("pass@{}", drawn)] = pass_at_k(samples, correct, drawn);
    }
    problems[problem] = std::move(one);
  }
  return {{"averages", pass_averages(problems, pass_k)},
          {"metadata", pass_metadata(problems, pass_k)},
          {"problems", problems}};
}

ordered_json analysis_of(const kernelbench_run& run, int level, std::string_view run_name,
                         const ordered_json& eval_results, const kernelbench_baselines* given,
                         const ordered_json* pass) {
  std::int64_t compiled = 0, correct = 0;
  std::vector<scored_problem> problems;
  const auto members = problems_of(run.suite, level);
  for (const auto& [problem, member] : members) {
    const bench_attempt* first = judged_first(run.attempts[member]);
    compiled += first != nullptr && is_compiled(*first->verdict) ? 1 : 0;
    correct += first != nullptr && is_correct(*first->verdict) ? 1 : 0;
    const auto mean = given == nullptr ? std::nullopt : given->mean_of(run.suite.members[member]);
    if (given == nullptr || mean) problems.push_back(scored(first, mean));
  }
  const auto total = static_cast<std::int64_t>(members.size());
  ordered_json fast = ordered_json::object();
  for (const double p : kernelbench_thresholds)
    fast[python_float(p)] = fast_p(problems, p);
  ordered_json out = {{"run_name", run_name},
                      {"level", level},
                      {"hardware", given == nullptr ? run.device_class : given->hardware_text()},
                      {"total_count", total},
                      {"total_eval", eval_results.size()},
                      {"compiled_count", compiled},
                      {"correct_count", correct},
                      {"compilation_rate", rate_of(compiled, total)},
                      {"correctness_rate", rate_of(correct, total)},
                      {"geo_mean_speedup", geometric_mean_of_correct(problems)},
                      {"fast_p", std::move(fast)}};
  if (pass != nullptr)
    out["pass_at_k"] = {{"metadata", (*pass)["metadata"]}, {"averages", (*pass)["averages"]}};
  return out;
}

base::status check_kernelbench_folder(const fs::path& folder, const env::suite& suite) {
  const suite_places places(suite);
  if (const auto placed = places.check_all(); !placed)
    return base::in_context("--write-kernelbench", placed.error());
  const auto levels = places.levels();
  for (const int level : levels)
    QUERN_CHECK(check_level_folder(folder_of(folder, level, levels.size())));
  return {};
}

base::status write_kernelbench_folder(const fs::path& folder, const kernelbench_run& run) {
  const auto levels = suite_places(run.suite).levels();
  for (const int level : levels)
    QUERN_CHECK(write_level(folder_of(folder, level, levels.size()), run, level));
  return {};
}

}  // namespace quern::tools
