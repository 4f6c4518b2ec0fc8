// The run that a person means by a word.
#pragma once

#include <filesystem>
#include <string>

#include "base/status.hpp"

namespace quern::tools {

/// The folder of the run that `word` names: the folder itself, or runs/WORD below the present
/// folder. Of a chain the stage that was begun last. Errors: not_found, naming both places and,
/// where one is near, the run that may be meant; those of `actors::present_stage`.
base::expected<std::filesystem::path> find_run(const std::string& word);

}  // namespace quern::tools
