// A text that a person names on the command line.
#pragma once

#include <cstddef>
#include <string>

#include "base/status.hpp"

namespace quern::tools {

/// The whole file, or standard input up to its end for "-" (one thread at a time). `what` names it
/// in messages: "a prompt". Errors: a file that cannot be read, more than `most` bytes.
base::expected<std::string> read_input(const std::string& file, std::size_t most, const char* what);

}  // namespace quern::tools
