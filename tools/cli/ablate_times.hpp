// Seconds that the runs of an ablation took, over all calls of the command: OUT/seconds.json.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "base/status.hpp"

namespace quern::tools {

/// By the names of runs. Empty before the first; where the file cannot be read, too, with a
/// warning: no figure but the times hangs on it.
std::map<std::string, double> read_seconds(const std::filesystem::path& out);

/// More of one run. Errors: of writing the file.
base::status add_seconds(const std::filesystem::path& out, const std::string& run, double seconds);

}  // namespace quern::tools
