// What an earlier life of a search has found and spent, by its ledger.
#pragma once

#include <cstdint>

#include "actors/config/run_config.hpp"
#include "actors/decide/search_book.hpp"
#include "base/status.hpp"
#include "env/verdict/verdict.hpp"
#include "storage/archive.hpp"
#include "storage/ledger.hpp"

namespace quern::actors {

/// A kernel whose verdict is `ok`, made by sample `id`.
found_kernel found_kernel_of(const env::verdict& value, sample_id id);

/// Evaluations that a run of stage search has spent. Quick. Errors: those of the ledger.
base::expected<std::int64_t> evaluations_spent(const storage::ledger& ledger);

/// Of a run of stage search. Reads every verdict of the run. `tasks` are searched.
/// Errors: those of the ledger and the archive, a verdict that cannot be read.
base::expected<search_book> search_so_far(const run_config& config, const storage::ledger& ledger,
                                          const storage::archive& archive, std::int64_t tasks);

}  // namespace quern::actors
