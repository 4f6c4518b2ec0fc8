// After the last step: the panel, the table, the best kernels as files.
#pragma once

#include <optional>
#include <string>

#include "actors/config/run_config.hpp"
#include "actors/replay/task_book.hpp"
#include "base/status.hpp"
#include "storage/ledger_rows.hpp"
#include "storage/run_directory.hpp"

namespace quern::actors {

/// Where a run stands by its ledger; needs no lock.
base::expected<storage::ledger_position> position_of(const storage::run_paths& paths);

/// Measures the panel (where `observe.panel` says so) into RUN/panel.json, writes the best kernel
/// of each task with its verdict into RUN/kernels/, and returns the text that a person wants to
/// read. None: a signal or `quern pause` came before the panel was complete; call it again to
/// finish.
base::expected<std::optional<std::string>> finish_run(const run_config& config,
                                                      storage::run_directory& run,
                                                      const task_book& tasks);

/// Whether there is nothing left for finish_run to do.
bool is_finished(const run_config& config, const storage::run_paths& paths);

}  // namespace quern::actors
