// Runs the panel: one generator with the first weights, one with the last, evaluators as in the
// run.
#pragma once

#include "actors/config/run_config.hpp"
#include "actors/replay/panel.hpp"
#include "actors/replay/task_book.hpp"
#include "base/status.hpp"
#include "storage/run_directory.hpp"

namespace quern::actors {

/// Asks `questions` of the weights in `first` and in `last` (Hugging Face folders). Blocks for as
/// long as it takes; nothing is written to the ledger.
base::expected<panel> run_panel(const run_config& config, storage::run_directory& run,
                                const task_book& tasks, const std::string& first,
                                const std::string& last);

}  // namespace quern::actors
