// A trainer as the configuration asks for it, whatever it is fed with.
#pragma once

#include <cstdint>
#include <filesystem>

#include "actors/config/run_config.hpp"
#include "base/status.hpp"
#include "policy/engine/trainer.hpp"
#include "policy/weights/memory_plan.hpp"

namespace quern::actors {

policy::trainer_options trainer_options_of(const run_config& config, policy::loss_parameters loss,
                                           std::int64_t valid_tokens);

/// What a rank will hold, before it does, and what of its device it may have.
struct memory_share {
  policy::memory_plan plan;
  std::int64_t available = 0;
};

/// Error: the plan is larger, naming the setting to change.
base::expected<memory_share> plan_memory(const policy::model_config& model,
                                         const run_config& config, std::int32_t rank,
                                         at::Device device);

/// From the folder of shards of any number of ranks, or the one file of a run of earlier versions.
/// The ranks of a group call it together.
base::status load_optimizer_state(policy::trainer& trainer, const std::filesystem::path& path);

}  // namespace quern::actors
