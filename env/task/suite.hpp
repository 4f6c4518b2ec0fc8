// A suite: a folder of task files with a suite.yaml that says how they are split and what is
// allowed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "env/task/task.hpp"

namespace quern::env {

/// What `held_out` lists: families, task names, or tasks standing for their composition (every task
/// that composition_of does not tell from the named one is held out with it; 32 hex digits name a
/// composition, too).
enum class split_kind { family, composition, task };

/// Policy switches of a suite; the defaults are the strict ones.
struct suite_policy {
  bool library_calls = false;    ///< candidates may call vendor libraries (lane cuda)
  bool lower_precision = false;  ///< results may be computed in a narrower type than the task's
  bool graphs = false;           ///< candidates may capture CUDA graphs
  bool host_entry =
      true;  ///< candidates may have host code of their own (lane cpp is nothing else)
  friend bool operator==(const suite_policy&, const suite_policy&) = default;
};

struct suite_member {
  env::task task;
  std::string id;         ///< task_id(task)
  bool held_out = false;  ///< never trained on, never in a prompt's archive
};

struct suite {
  std::string name;  ///< the folder's name
  split_kind split_by = split_kind::task;
  std::vector<std::string> held_out;
  std::int64_t recheck_above_e2 =
      300;  ///< speed-up (1/100) above which a claim is measured again; cpp 3000
  suite_policy policy;
  std::vector<suite_member> members;  ///< sorted by task name; names are unique
};

inline constexpr int suite_version = 1;

/// Reads suite.yaml (keys quern_suite: 1, split: {by, held_out}, recheck_above, policy) and every
/// *.task.yaml of the folder (not of folders below it). Errors name the file. Refuses a held_out
/// entry that matches no task, tasks of different lanes, two tasks of one name and a file whose
/// name is not its task's.
base::expected<suite> load_suite(const std::filesystem::path& folder);

/// The composition of a task: its family and canonical reference text, hashed; sizes, names and
/// distributions do not enter. 32 hex digits.
std::string composition_of(const task& what);

}  // namespace quern::env
