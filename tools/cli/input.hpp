// A text that a person names on the command line.
#pragma once

#include <cstddef>
#include <string>

#include "base/status.hpp"

namespace quern::tools {

/// The file, or standard input for "-": at most `most` bytes. `what` is it, for messages: "a
/// prompt".
base::expected<std::string> read_input(const std::string& file, std::size_t most, const char* what);

}  // namespace quern::tools
