// After the last step: the panel, the table, the best kernels as files.
#pragma once

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
/// read.
base::expected<std::string> finish_run(const run_config& config, storage::run_directory& run,
                                       const task_book& tasks);

}  // namespace quern::actors
