// Where Python is, for the processes that need one with modules of its own.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace quern::env {

/// Held folders (base::temp_folder) of Pythons that are asked what they can do.
inline constexpr std::string_view python_folder_prefix = "quern-python";

/// Programs to try, the best first: $QUERN_PYTHON alone where it is set; else those of the virtual
/// environments called `names` above the running program, that of $VIRTUAL_ENV, and PATH's.
std::vector<std::filesystem::path> python_programs(std::span<const std::string_view> names);

/// The last line that a command prints within three minutes. Error (unavailable, timeout): the last
/// line that it printed, where it failed.
base::expected<std::string> last_line_of(const std::vector<std::string>& argv);

}  // namespace quern::env
