// CLI11 with Quern's exit codes.
#pragma once

#include <cstdint>
#include <optional>

#include <CLI/CLI.hpp>

namespace quern::tools {

/// Parses; the exit code to return at once (help, or a wrong command line), or nothing. An `app`
/// without a name is called "quern " and argv[0].
std::optional<int> parse(CLI::App& app, int argc, char** argv);

/// Checks of an option's text, before it is read: a finite number, or a whole one, in low .. high
/// and nothing after it. CLI11's own let NaN through and print limits of 300 digits.
CLI::Validator number_within(double low, double high);
CLI::Validator whole_within(std::int64_t low, std::int64_t high);

}  // namespace quern::tools
