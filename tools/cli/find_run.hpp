// The run, or the model, that a person means by a word.
#pragma once

#include <filesystem>
#include <string>

#include "base/status.hpp"

namespace quern::tools {

/// The folder of the run or chain that `word` names: the folder itself, or runs/WORD below the
/// present folder. Errors: not_found, naming both places and, where one is near, the run that may
/// be meant.
base::expected<std::filesystem::path> find_run_folder(const std::string& word);

/// The same; of a chain the stage that was begun last. Errors also: those of
/// `actors::present_stage`.
base::expected<std::filesystem::path> find_run(const std::string& word);

/// What actors::find_policy looks at: a folder or run as above, or a policy that ships with Quern
/// ("policy/demo"). Error: not_found, saying what may be named.
base::expected<std::filesystem::path> find_model(const std::string& word);

}  // namespace quern::tools
