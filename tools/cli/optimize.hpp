// What `quern optimize` is made of: from its words to a run of stage search, and from the run that
// has ended to what is kept of its best kernel.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "actors/config/run_config.hpp"
#include "base/status.hpp"
#include "env/task/find_tasks.hpp"
#include "storage/run_directory.hpp"

namespace quern::tools {

struct optimize_arguments {
  std::string task;    ///< a task file, a shipped task's name, or a task of others
  std::string policy;  ///< Hugging Face folder
  std::int64_t budget = 64;
  std::int64_t group = 8;
  std::int64_t seed = 1;
  std::string exemplars = "bucket";
  bool independent = false;  ///< no prompt shows a kernel
  bool best_effort = false;
  std::string folder;  ///< of the run; empty: runs/optimize/NAME-SEED
  std::string kernelbench;
  std::vector<std::string> settings;  ///< KEY=VALUE over what follows from the above
};

/// The task, and the word by which a run names it.
struct optimized_task {
  std::string word;
  env::found_task found;
};

/// A file, a task of others, or the name of a shipped task, "SUITE/NAME" where several suites have
/// it. Errors: not_found, naming what there is; invalid_argument, naming the suites to choose from.
base::expected<optimized_task> find_optimized_task(const optimize_arguments& a);

/// Settings of the run, KEY=VALUE; those that the person gave are the last. Errors:
/// invalid_argument: a budget below one group, a policy that is no folder of one.
base::expected<std::vector<std::string>> optimize_settings(const optimize_arguments& a,
                                                           const optimized_task& task);

/// Measures the best kernel of a search again, in fresh processes; before, those that the search
/// does not tell apart, to know which is the best (actors/decide/finalists). Writes into its folder
/// best.EXT, best.verdict.json (of that measurement), best.lineage.json and optimize.json
/// (docs/formats/optimize.md). Says on stdout what they hold, and with `explain` the chain. The
/// choice and the measurement of an earlier call are taken where it chose of the same kernels.
/// Errors: of the run's files, of the judge.
base::status keep_best(const actors::run_config& config, storage::run_directory& run, bool explain);

}  // namespace quern::tools
