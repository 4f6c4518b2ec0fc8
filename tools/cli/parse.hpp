// CLI11 with Quern's exit codes.
#pragma once

#include <optional>

#include <CLI/CLI.hpp>

namespace quern::tools {

/// Parses; the exit code to return at once (help, or a wrong command line), or nothing.
std::optional<int> parse(CLI::App& app, int argc, char** argv);

}  // namespace quern::tools
