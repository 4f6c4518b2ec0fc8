// Runs the evaluation set: the generators with the first weights, then with the last, evaluators as
// in the run.
#pragma once

#include <optional>

#include "actors/config/run_config.hpp"
#include "actors/orchestrator/evaluation_set.hpp"
#include "actors/orchestrator/task_book.hpp"
#include "base/status.hpp"
#include "storage/run_directory.hpp"

namespace quern::actors {

/// Asks the same questions of the weights in `first` and in `last` (Hugging Face folders). Blocks
/// for as long as it takes; answers `quern status`, and says in the log how far it is. A generator
/// that dies is started again within `actors.restarts` and asked what it had not answered. None:
/// SIGINT, SIGTERM, SIGHUP or `quern pause` came first. Nothing is written to the ledger.
base::expected<std::optional<evaluation_set>> run_evaluation_set(const run_config& config,
                                                                 storage::run_directory& run,
                                                                 const task_book& tasks,
                                                                 const std::string& first,
                                                                 const std::string& last);

}  // namespace quern::actors
