// After the last step: the closing comparison, the report, the best kernels as files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "actors/config/run_config.hpp"
#include "actors/decide/search_book.hpp"
#include "actors/orchestrator/task_book.hpp"
#include "base/status.hpp"
#include "storage/ledger_rows.hpp"
#include "storage/run_directory.hpp"

namespace quern::actors {

/// RUN/evaluation_set.json; where a run has none but the file that builds of schema 1 wrote, that
/// one.
std::filesystem::path evaluation_set_file(const storage::run_paths& paths);

/// Where a run stands by its ledger; needs no lock.
base::expected<storage::ledger_position> position_of(const storage::run_paths& paths);

/// How far a run is by what is durable: optimiser steps that a checkpoint holds or, in stage
/// search, evaluations that are spent.
struct run_goal {
  std::int64_t done = 0, wanted = 0;
  std::int64_t open = 0;  ///< stage search: samples in flight
  std::string_view unit;  ///< "step", "evaluation"
  [[nodiscard]] bool reached() const { return done >= wanted && open == 0; }
};

/// Needs no lock. Errors: a run that cannot be read.
base::expected<run_goal> goal_of(const run_config& config, const storage::run_paths& paths);

/// What a run of stage search has found and spent by its ledger; needs no lock. Errors: as
/// position_of.
base::expected<search_book> search_of(const run_config& config, const storage::run_paths& paths);

/// Before a run goes on: whether run.db is as SQLite wrote it. Errors: corrupt, with what to do.
/// Reads the whole file.
base::status check_ledger(const storage::run_paths& paths);

/// Whether the run was ended before it began: it has no ledger, nor anything that one would know
/// of. Error: not_found, when the ledger is gone and something is there that it knew.
base::expected<bool> is_untouched(const storage::run_paths& paths);

enum class missing_evaluation_set {
  measure,   ///< with evaluators and a generator: minutes
  leave_out  ///< the report says that there is none
};

/// Makes what a run leaves for people: RUN/evaluation_set.json (where `observe.evaluation_set` says
/// so and it is not there yet), the best kernel of each task with its verdict in RUN/kernels/, and
/// last RUN/report.txt. Returns the text of the report. None: a signal or `quern pause` came before
/// the comparison was complete; call it again to finish.
base::expected<std::optional<std::string>> finish_run(
    const run_config& config, storage::run_directory& run, const task_book& tasks,
    missing_evaluation_set how = missing_evaluation_set::measure);

/// Before steps are added to a run that had been finished: takes back what finish_run says of it.
void unfinish_run(const storage::run_paths& paths);

/// Whether there is nothing left for finish_run to do.
bool is_finished(const run_config& config, const storage::run_paths& paths);

/// Whether finish_run would have to make the closing comparison.
bool lacks_evaluation_set(const run_config& config, const storage::run_paths& paths);

}  // namespace quern::actors
