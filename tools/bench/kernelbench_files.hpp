// What a run of KernelBench leaves, written from verdicts of Quern: eval_results.json,
// pass_at_k_results.json and the JSON of its analysis, in the bytes of its own writers.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "base/status.hpp"
#include "env/task/suite.hpp"
#include "tools/bench/bench_attempts.hpp"
#include "tools/bench/kernelbench_baselines.hpp"

namespace quern::tools {

/// What the files are made of. References must outlive it.
struct kernelbench_run {
  const env::suite& suite;  ///< every task with a place of its own (suite_places::check_all)
  const task_attempts& attempts;
  std::string device_class;                      ///< their `hardware`
  std::span<const std::int64_t> pass_k;          ///< each at least 1
  std::span<const kernelbench_baselines> given;  ///< times of files
};

/// One entry of eval_results.json: a sample with its verdict (never null here).
base::ordered_json kernelbench_entry(const bench_attempt& attempt, std::string_view device_class);

/// eval_results.json of a level: {"<problem>": [entry, ...]}, problems in numerical order, samples
/// by number; only those that have a verdict.
base::ordered_json eval_results_of(const kernelbench_run& run, int level);

/// pass_at_k_results.json: from eval_results_of().
base::ordered_json pass_at_k_results_of(const base::ordered_json& eval_results,
                                        std::span<const std::int64_t> pass_k);

/// The JSON of their analysis, over the baseline measured beside each candidate (`given` null,
/// every task of the level counts), or over times of a file (those tasks that it has). `pass`: what
/// pass_at_k_results_of() made, or null.
base::ordered_json analysis_of(const kernelbench_run& run, int level, std::string_view run_name,
                               const base::ordered_json& eval_results,
                               const kernelbench_baselines* given, const base::ordered_json* pass);

/// Whether results may be written into `folder`, which need not exist: there are none of a level of
/// `suite`, or Quern wrote them. Errors: those of suite_places::check_all; already_exists for
/// results of somebody else, which are never written over.
base::status check_kernelbench_folder(const std::filesystem::path& folder, const env::suite& suite);

/// Writes the files of all levels, each whole or not at all: into `folder` for a suite of one
/// level, else into level1, level2 and so on below it. pass_at_k_results.json is there where a
/// problem has several samples, analysis_over_baselines.json where `run.given` has a file, and
/// analysis_over_baselines_2.json and so on where it has more.
base::status write_kernelbench_folder(const std::filesystem::path& folder,
                                      const kernelbench_run& run);

}  // namespace quern::tools
