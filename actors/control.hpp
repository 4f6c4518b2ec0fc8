// The control process: one run from its first incarnation to its end in this process. The only
// writer of the ledger; generators, learners and evaluator hosts are other processes.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "actors/config/run_config.hpp"
#include "actors/decide/ids.hpp"
#include "actors/orchestrator/task_book.hpp"
#include "actors/supervisor.hpp"
#include "base/status.hpp"
#include "storage/run_directory.hpp"

namespace quern::actors {

/// Told once, on the thread of run_control and before any process starts: the checkpoint that the
/// run goes on from (0: the weights that it began with), and its incarnation.
using begun_news = std::function<void(weights_version version, incarnation_id incarnation)>;

/// Runs until all steps are done, a signal (SIGINT, SIGTERM, SIGHUP: pause) or the console ends it,
/// or something fails that no retry mends. `run` holds the lock. Blocks; the calling thread handles
/// signals. Errors are those of opening; how a run that began has ended is in the value.
base::expected<run_end> run_control(const run_config& config, storage::run_directory& run,
                                    const task_book& tasks, const begun_news& begun);

}  // namespace quern::actors
