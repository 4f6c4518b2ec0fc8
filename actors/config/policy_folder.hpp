// Where the policy lies that a person names: a Hugging Face folder, a checkpoint, a run or a chain.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace quern::actors {

struct policy_folder {
  std::filesystem::path model;     ///< with its config.json
  std::vector<std::string> notes;  ///< what was chosen or passed over, for the log
};

/// What to do when the newest checkpoint that a run knows is missing or damaged.
enum class older_checkpoint {
  refuse,
  take  ///< the newest one that is whole; `notes` say so
};

/// The folder itself, the model/ of a checkpoint, that of a run's last checkpoint, or that of the
/// last stage of a chain that has one. A run's last checkpoint is the newest that its ledger or
/// LATEST names. The model of a checkpoint has every byte that was written, by its manifest; files
/// beside it may be damaged. Errors name the folder, what is there and what to do: not_found, a run
/// before its first checkpoint included; corrupt, which names the option --older where an older
/// checkpoint is refused.
base::expected<policy_folder> find_policy(const std::filesystem::path& name,
                                          older_checkpoint older = older_checkpoint::refuse);

/// Where the weights of a model's folder come from.
struct model_origin {
  std::optional<std::filesystem::path> run;  ///< the run that made them; none: no run of ours
  std::optional<std::int64_t> version;       ///< of a checkpoint
};

/// Of `policy_folder::model`, by the folders above it.
model_origin origin_of(const std::filesystem::path& model);

}  // namespace quern::actors
