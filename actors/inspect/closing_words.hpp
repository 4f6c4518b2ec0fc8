// Words of a run's closing report.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "actors/orchestrator/best_kernels.hpp"
#include "actors/orchestrator/evaluation_set.hpp"
#include "storage/ledger.hpp"

namespace quern::actors {

/// How many samples have each verdict, of those that a verdict has decided; "unreadable" where what
/// is stored is none. Reads all of them in one read: for the end of a run. Errors: those of the
/// ledger.
base::expected<std::map<std::string, std::int64_t>> count_verdicts(const storage::ledger& ledger);

/// "mean reward, held out: 0.775 with the first weights, 1.163 with the last (63 prompts): 1.50
/// times as much, with 95 % confidence between 1.10 and 2.03 times". Says so where the interval
/// contains 1. `seed` addresses the bootstrap. Ends with a newline.
std::string gain_words(std::string_view name, const evaluation_set_half& half, std::uint64_t seed);

/// A table of the fastest kernels, at most `most`, the fastest first, with 95 % intervals; empty
/// where there is none.
std::string fastest_table(const std::vector<kept_kernel>& kernels, std::size_t most = 10);

}  // namespace quern::actors
