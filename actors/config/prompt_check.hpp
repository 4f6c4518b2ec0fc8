// Whether a run can ask its policy what it will ask, and is answered where answers are recorded.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "actors/config/run_config.hpp"
#include "actors/orchestrator/task_book.hpp"
#include "base/status.hpp"

namespace quern::actors {

/// Bare prompts fit into policy.max_prompt_tokens (prompter::check). With policy.engine: recorded
/// also: the file can be read, every task that is trained on has a completion whatever its prompts
/// show, and each completion that may be played fits into policy.max_new_tokens. Says how many
/// completions the run may play. `run`: the run's folder, which need not be there.
/// Error: invalid_argument, naming key, value, line or task, limit and what to do.
base::status check_prompts(const run_config& config, const std::string& device_class,
                           const std::vector<book_task>& tasks, const std::filesystem::path& run);

/// What of it can be known before the policy is there: the file and its tasks.
base::status check_recorded(const run_config& config, const std::vector<book_task>& tasks,
                            const std::filesystem::path& run);

}  // namespace quern::actors
