// The roles of stage sft: makers of a corpus, and the learner that is fed by it.
#pragma once

#include <filesystem>

#include "actors/config/run_config.hpp"
#include "actors/role.hpp"
#include "base/status.hpp"
#include "storage/run_directory.hpp"

namespace quern::actors {

/// Where the corpus of a run lies.
std::filesystem::path corpus_of(const run_config& config, const storage::run_paths& paths);

/// `corpus`: at most `env.evaluators` makers (quern tasks corpus), none where that is 0; a corpus
/// that was begun keeps its shards, and they share them. Makes the folder. `config` outlives the
/// role. Errors: a corpus that cannot be read, or that this run would not have begun.
base::expected<role> corpus_role(const run_config& config, const storage::run_paths& paths);

/// `sft`: one process a rank (quern-torch sft); "sft" is rank 0 and speaks on the terminal, the
/// others are sft-1 and so on. `config` and `run` outlive the role.
role tuning_role(const run_config& config, storage::run_directory& run);

}  // namespace quern::actors
