// Task files: NAME.task.yaml, strictly read and canonically written. Format:
// docs/formats/task.md.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "env/task/task.hpp"

namespace quern::env {

inline constexpr int task_version = 1;
inline constexpr std::size_t max_task_file_bytes = 256 * 1024;

/// Parses and validates the text of a task file. Never throws, whatever the bytes. Refuses another
/// `quern_task` version, keys that neither the head nor the body of the lane has (naming the
/// nearest known one), doubled keys, wrong types and values out of range.
base::expected<task> parse_task(std::string_view yaml);

/// Reads a file; errors begin with its path.
base::expected<task> load_task(const std::filesystem::path& file);

/// The canonical form, itself a task file: fixed order and layout, so that equal tasks have equal
/// text. parse_task(to_yaml(t)) == t for every valid t.
std::string to_yaml(const task& what);

/// Brings reference or plain text into canonical form: no carriage returns, no spaces at line ends,
/// no empty lines at either end, one final newline (or empty).
std::string canonical_block(std::string_view text);

/// The lines of a canonical form that give `key` a canonical block; none where that is empty.
std::string block_text(std::string_view key, const std::string& text);

}  // namespace quern::env
