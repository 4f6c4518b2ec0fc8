// CLI11 with Quern's exit codes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

#include "base/status.hpp"

namespace quern::tools {

/// Parses; the exit code to return at once (help, or a wrong command line), or nothing. An `app`
/// without a name is called "quern " and argv[0].
std::optional<int> parse(CLI::App& app, int argc, char** argv);

/// Checks of an option's text, before it is read: a finite number, or a whole one, in low .. high
/// and nothing after it. CLI11's own let NaN through and print limits of 300 digits.
CLI::Validator number_within(double low, double high);
CLI::Validator whole_within(std::int64_t low, std::int64_t high);

/// A key of the configuration that an option of a command says.
struct key_of_option {
  std::string_view key, option;
};

/// Refuses texts of --set (KEY=VALUE, or STAGE.KEY=VALUE) whose key an option says: one of the two
/// would be lost without a word. Error: invalid_argument, naming both.
base::status refuse_keys_of_options(std::span<const std::string> settings,
                                    std::span<const key_of_option> keys);

}  // namespace quern::tools
