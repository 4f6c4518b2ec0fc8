// The kernels that `quern bench` is given: a folder of files, or lines of JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "env/task/suite.hpp"
#include "env/task/task_source.hpp"

namespace quern::tools {

struct bench_candidate {
  std::size_t member = 0;  ///< index of its task among the suite's members
  std::string task;        ///< the task's name
  std::string id;          ///< unique among the candidates of its task
  std::string source;
  std::string hash;    ///< xxh128 of `source`, 32 hex digits: whether a stored verdict is of it
  std::string origin;  ///< where it was read: the file, or file and line
  /// Its number among those of its task, where its name says one; unique then.
  std::optional<std::int64_t> sample = std::nullopt;
};

/// Longest source and longest id, in bytes.
inline constexpr std::size_t max_candidate_source = 1U << 20U;
inline constexpr std::size_t max_candidate_id = 512;

/// Candidates that were left out because the suite does not have their task.
struct skipped_candidates {
  std::size_t candidates = 0;
  std::set<std::string> tasks;  ///< names, or "level 1 problem 3"
};

/// Reads all candidates, ordered by task (in the suite's order), those of one task as they were
/// found. A folder: every file TASK.ANYTHING or TASK with the ending of a lane in it and
/// in folders below it, and every file level_<L>_problem_<P>_sample_<S>_kernel.py, whose task is
/// the one at that place (suite_member::place); the id is its path below the folder; other endings
/// and names that begin with a dot are left out. A file: see parse_candidates. Errors
/// (invalid_argument, not_found) name the file or line and the value: an unknown task, an id or a
/// sample given twice, a place of two tasks, a source that is too long. With `skipped`, candidates
/// of unknown tasks are left out and counted there.
base::expected<std::vector<bench_candidate>> read_candidates(const std::filesystem::path& from,
                                                             const env::suite& suite,
                                                             skipped_candidates* skipped = nullptr);

/// One JSON object a line: "task" (a name of the suite), "source" or "code" (text), "id" (text or a
/// whole number; without one "#LINE"). Other fields and empty lines are left out; a last line need
/// not end. `name` is what errors call the text.
base::expected<std::vector<bench_candidate>> parse_candidates(
    std::string_view text, std::string_view name, const env::suite& suite,
    skipped_candidates* skipped = nullptr);

/// The same of candidates that stand in a file of tasks (env/task/find_tasks.hpp), whose ids they
/// keep. `name` is what errors call the file.
base::expected<std::vector<bench_candidate>> take_candidates(
    std::vector<env::bundled_candidate> given, std::string_view name, const env::suite& suite,
    skipped_candidates* skipped = nullptr);

}  // namespace quern::tools
