// Stage sft: corpus makers side by side, then fine-tuning; each goes on where it stopped.
#pragma once

#include "actors/config/run_config.hpp"
#include "actors/supervisor.hpp"
#include "base/status.hpp"
#include "storage/run_directory.hpp"

namespace quern::actors {

/// Starts `env.evaluators` corpus makers (quern tasks corpus), waits for them, then quern-torch
/// sft; who dies or hangs is started again. SIGINT, SIGTERM, SIGHUP, `quern pause`, `quern stop`
/// and run.max_time_s end it in order, within a limit; a second signal at once. It goes on where it
/// stopped.
/// The policy ends up in RUN/checkpoints/LATEST. Blocks.
base::expected<run_end> run_sft(const run_config& config, storage::run_directory& run);

/// Where a fine-tuning run stands by its files.
struct sft_position {
  std::int64_t records = 0;  ///< of the corpus
  std::int64_t step = 0;     ///< of the last durable checkpoint
};

/// Step of the last durable checkpoint; 0: there is none. Whatever has become of the corpus. Needs
/// no lock.
base::expected<std::int64_t> durable_sft_step(const storage::run_paths& paths);

/// Needs no lock.
base::expected<sft_position> sft_position_of(const run_config& config,
                                             const storage::run_paths& paths);

}  // namespace quern::actors
