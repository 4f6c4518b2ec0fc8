// The file of `policy.engine: recorded`: completions that a run plays instead of sampling them.
// docs/formats/recorded.md has the format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.hpp"
#include "base/status.hpp"

namespace quern::actors {

/// One line of the file: a completion, and either the task or the prompt that it answers.
struct recorded_completion {
  std::int64_t line = 0;                ///< counted from 1
  std::string task;                     ///< name or full id; empty: `prompt` is set
  std::optional<base::hash128> prompt;  ///< xxh128 of the prompt's text
  std::string text;                     ///< never empty
};

/// Bounds of a file. Control holds the text of every completion that the run may play.
struct recorded_limits {
  std::size_t bytes = std::size_t{256} << 20U;
  std::size_t line_bytes = std::size_t{2} << 20U;
  std::int64_t completions = 200'000;
};

/// Reads the bytes of a file. Blank lines are passed over. Pure.
/// Errors (invalid_argument): no completion, a bound that is exceeded, a line that is not of the
/// format; they name the line, what is wrong and what to write.
base::expected<std::vector<recorded_completion>> parse_recorded(std::string_view text,
                                                                const recorded_limits& limits = {});

/// The bytes of a file. Errors: as base::read_file, with the bound of `limits`.
base::expected<std::string> read_recorded(const std::filesystem::path& file,
                                          const recorded_limits& limits = {});

}  // namespace quern::actors
