// The best kernels that a run's policy wrote, as files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "actors/config/run_config.hpp"
#include "actors/orchestrator/evaluation_set.hpp"
#include "actors/orchestrator/task_book.hpp"
#include "base/status.hpp"
#include "storage/archive.hpp"
#include "storage/ledger.hpp"

namespace quern::actors {

/// Where best kernels are looked for. Everything must outlive the call.
struct kernel_sources {
  const storage::archive* archive = nullptr;
  const storage::ledger* ledger = nullptr;
  const evaluation_set* measured = nullptr;  ///< null: weights were not compared
  std::string device_class;
};

/// A kernel that was written.
struct kept_kernel {
  std::string task;  ///< name
  bool held_out = false;
  std::int64_t speedup_e2 = 0;
  std::string verdict;  ///< JSON; may be empty
};

/// For each task with an `ok` kernel by the policy, of a sample or of an answer of the evaluation
/// set, the fastest as FOLDER/NAME with the ending of the lane, and its verdict as
/// NAME.verdict.json. Variants that prompts brought along do not count, however fast. One whose
/// text cannot be read is left out with a warning. Generated tasks are written beside them as a
/// suite, so that quern bench can measure them again, over ATen too. Returns them in the order of
/// the tasks.
base::expected<std::vector<kept_kernel>> write_best_kernels(const std::filesystem::path& folder,
                                                            const run_config& config,
                                                            const task_book& tasks,
                                                            const kernel_sources& from);

}  // namespace quern::actors
