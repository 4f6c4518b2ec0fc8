// How and under which rules to measure: options that are the same in every command.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "base/status.hpp"
#include "env/measure/measure_name.hpp"
#include "env/task/suite_policy.hpp"
#include "env/task/task.hpp"

namespace quern::tools {

struct measure_options {
  std::string protocol{env::protocol_paired};
  std::string baseline;  ///< empty: the suite's
  /// Switches of a suite (env/task/suite_policy.hpp) turned on or off, with commas between.
  std::string allow, forbid;
};

void add_measure_options(CLI::App& app, measure_options& options);
/// --timeout: seconds that a whole evaluation may take; 0 where it is left out.
void add_timeout_option(CLI::App& app, double& seconds);
void add_policy_options(CLI::App& app, measure_options& options);

/// `on_gpu`: whether a GPU is asked for. Errors: invalid_argument, with the known names, or with
/// those that the lane has there.
base::expected<env::measure_name> measure_of(const measure_options& options,
                                             env::baseline_choice of_suite, const env::lane& lane,
                                             bool on_gpu);
/// Whether the task can be measured over that.
base::status check_baseline(const env::measure_name& measured, const env::task& what, bool on_gpu);
base::expected<env::suite_policy> policy_of(const measure_options& options,
                                            const env::suite_policy& of_suite);

}  // namespace quern::tools
