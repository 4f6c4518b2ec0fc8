// A policy on disk: the model as a Hugging Face directory, the optimiser's moments as safetensors,
// the trainer's small state as JSON.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "base/json.hpp"
#include "base/status.hpp"
#include "policy/engine/arena.hpp"
#include "policy/engine/optimizer.hpp"
#include "policy/engine/trainer.hpp"
#include "policy/loss/advantage.hpp"
#include "policy/weights/dtype.hpp"
#include "policy/weights/model_dir.hpp"

namespace quern::policy {

/// A copy on the host in the type that files of it have, for `save_model` on another thread. Its
/// `weights` are empty.
parameter_arena for_files(const parameter_arena& arena);

/// Writes config.json, generation_config.json and the weights in the arena's configured dtype.
/// Tokenizer files are copied from `tokenizer_from` where that is given (tokenizer.json,
/// tokenizer_config.json, chat template, special tokens). Each file is atomic.
base::status save_model(const parameter_arena& arena, const std::filesystem::path& dir,
                        const std::filesystem::path& tokenizer_from = {},
                        const std::map<std::string, std::string>& metadata = {},
                        std::uint64_t max_shard_bytes = default_shard_bytes);

/// Both moments in float32 by Hugging Face name ("first.NAME", "second.NAME") with the step count
/// as metadata.
base::status save_optimizer(const adamw& optimizer, const std::filesystem::path& file);
/// Into an optimiser of the same model; options stay as they are.
base::status load_optimizer(adamw& optimizer, const std::filesystem::path& file);

/// What else a trainer needs to go on: version and reward statistics.
struct trainer_state {
  std::int64_t version = 0;
  std::int64_t optimizer_steps = 0;
  std::string weights_hash;
  reward_statistics rewards;
};
base::json to_json(const trainer_state& state);
base::expected<trainer_state> trainer_state_from_json(const base::json& value);

}  // namespace quern::policy
