// Stage sft: corpus makers side by side, then fine-tuning; each goes on where it stopped.
#pragma once

#include "actors/config/run_config.hpp"
#include "actors/supervisor.hpp"
#include "base/status.hpp"
#include "storage/run_directory.hpp"

namespace quern::actors {

/// Starts `env.evaluators` corpus makers (quern corpus), waits for them, then quern-torch sft.
/// SIGINT and SIGTERM pause. The policy ends up in RUN/checkpoints/LATEST. Blocks.
base::expected<run_end> run_sft(const run_config& config, storage::run_directory& run);

}  // namespace quern::actors
