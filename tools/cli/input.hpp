// Files that a person names on the command line.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace quern::tools {

/// The whole file, or standard input up to its end for "-" (one thread at a time). `what` names it
/// in messages: "a prompt". Errors: a file that cannot be read, more than `most` bytes.
base::expected<std::string> read_input(const std::string& file, std::size_t most, const char* what);

/// Whether base::write_file_atomic, which replaces what has the name, may write `file`, which the
/// option `name` gave. Errors: invalid_argument for what is there and no regular file, such as a
/// folder, a link or /dev/null, and for a folder that is not there.
base::status check_output_file(std::string_view name, const std::string& file);

}  // namespace quern::tools
