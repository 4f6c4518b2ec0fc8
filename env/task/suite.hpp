// A suite: a folder of task files with a suite.yaml that says how they are split and what is
// allowed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "env/task/suite_policy.hpp"
#include "env/task/task.hpp"
#include "env/verdict/baseline.hpp"

namespace quern::env {

/// What `held_out` lists: families, task names, or tasks standing for their composition (every task
/// that composition_of does not tell from the named one is held out with it; 32 hex digits name a
/// composition, too).
enum class split_kind { family, composition, task };

/// Where a published benchmark has a task: KernelBench's level 1, problem 3.
struct benchmark_place {
  int level = 0;
  int problem = 0;
  std::string file;  ///< the file's name there, which its tables of times have as a key
  friend bool operator==(const benchmark_place&, const benchmark_place&) = default;
};

struct suite_member {
  env::task task;
  std::string id;         ///< task_id(task)
  bool held_out = false;  ///< never trained on, never in a prompt's archive
  std::optional<benchmark_place> place = std::nullopt;
};

struct suite {
  std::string name;  ///< the folder's name
  split_kind split_by = split_kind::task;
  std::vector<std::string> held_out;
  std::int64_t recheck_above_e2 = 300;  ///< speed-up (1/100) above which a claim is measured again
  suite_policy policy;
  /// What speed-up is over, unless a command says otherwise.
  baseline_choice baseline = baseline_choice::of_task;
  std::vector<suite_member> members;  ///< sorted by task name; names are unique
};

inline constexpr int suite_version = 1;

/// Reads suite.yaml (keys quern_suite: 1, split: {by, held_out}, recheck_above, policy,
/// baseline) and every
/// *.task.yaml of the folder (not of folders below it). Errors name the file. Refuses a held_out
/// entry that matches no task, a baseline that a task cannot have, tasks of different lanes, two
/// tasks of one name and a file whose name is not its task's.
base::expected<suite> load_suite(const std::filesystem::path& folder);

/// The suite to which a task file belongs: the one whose suite.yaml lies beside it, but only the
/// header of it, without members; recheck_above_e2 is 0 where it does not say. Nothing where there
/// is none. Errors as load_suite's.
base::expected<std::optional<suite>> suite_beside(const std::filesystem::path& task_file);

/// A task file as a suite of one, under the rules of the suite beside it, or under none
/// (recheck_above_e2 is 0 then). Nothing is held out: who names the file asks for this task. Errors
/// as load_task's and suite_beside's.
base::expected<suite> suite_of_file(const std::filesystem::path& task_file);

/// The composition of a task: its family and canonical reference text, hashed; sizes, names and
/// distributions do not enter. 32 hex digits.
std::string composition_of(const task& what);

}  // namespace quern::env
