// The prompt that a run would ask its policy for a task, without exemplars.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "actors/config/run_config.hpp"
#include "base/status.hpp"
#include "env/task/find_tasks.hpp"

namespace quern::tools {

struct task_prompt_order {
  std::string word;             ///< of the task, as resolve_task gives it
  std::string kernelbench;      ///< folder of KernelBench's tree, as in source_options
  std::filesystem::path model;  ///< whose prompt it is: actors::policy_folder::model
  std::string template_name;    ///< empty: the run's, else the default of policy.template_name
  std::string device_class;     ///< empty: the run's, else this machine's
};

struct task_prompt {
  std::string text;
  std::string template_name;
  std::string device_class;
  /// Of the run that made the model; none: the model is of no run.
  std::optional<actors::run_config> run;
};

/// As actors::prompter makes it with the settings of the run that made the model, else with the
/// defaults, and with what the suite of the task allows. Errors: a configuration of another build;
/// not_found, no such template; unavailable, a device class that has to be told (--device-class).
base::expected<task_prompt> make_task_prompt(const task_prompt_order& order,
                                             const env::found_task& found);

}  // namespace quern::tools
