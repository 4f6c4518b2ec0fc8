// What `quern bench` works on: the suite that a word names, and the GPUs that it measures on.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "env/device/gpu_probe.hpp"
#include "env/task/suite.hpp"
#include "env/task/task_source.hpp"

namespace quern::tools {

/// A folder, tasks of others, or the name of a suite in `shipped`, where each is a folder. Errors:
/// not_found, with the names of those, where it is none of these; those of find_tasks().
base::expected<env::suite> find_suite(const std::string& given,
                                      const base::expected<std::filesystem::path>& shipped,
                                      const env::source_options& options = {});

/// The suite with tasks `names` called degenerate, beside those that say so themselves: for the
/// report alone, since it makes other tasks of them. Error (not_found): a name that no task has.
base::expected<env::suite> with_degenerate(env::suite suite, const std::vector<std::string>& names);

struct chosen_gpus {
  std::vector<int> gpus;              ///< at least one, ascending
  std::vector<std::string> left_out;  ///< a sentence for each that would have been chosen
};

/// Those of `asked`, or all that compute where nobody asked for any. Errors: unavailable where one
/// that was asked for, or every one, does not compute; invalid_argument where there is no such one.
base::expected<chosen_gpus> choose_gpus(const env::gpu_host& host, const std::vector<int>& asked);

}  // namespace quern::tools
