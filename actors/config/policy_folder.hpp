// Where the policy lies that a person names: a Hugging Face folder, a checkpoint, a run or a chain.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace quern::actors {

struct policy_folder {
  std::filesystem::path model;     ///< with its config.json
  std::vector<std::string> notes;  ///< what was chosen or passed over, for the log
};

/// The folder itself, the model/ of a checkpoint, that of a run's last checkpoint that is whole, or
/// that of the last stage of a chain that has one. What is a checkpoint has every byte that was
/// written, by its manifest. Errors name the folder, what is there and what to do: not_found, a
/// run before its first checkpoint included; corrupt.
base::expected<policy_folder> find_policy(const std::filesystem::path& name);

}  // namespace quern::actors
