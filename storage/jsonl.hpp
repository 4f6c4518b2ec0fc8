// Files of one JSON object a line (metrics.jsonl): appended whole, read past a torn end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/status.hpp"

namespace quern::storage {

/// Appends lines. One writer a file; not thread-safe.
class jsonl_writer {
 public:
  /// Cuts off a torn last line, which a writer that died left behind.
  static base::expected<jsonl_writer> open(const std::filesystem::path& path);

  /// One line, one write; in the page cache on return. A line that could not be written whole is
  /// taken back.
  base::status append(const base::ordered_json& line);

  /// Makes the lines survive a power cut.
  base::status sync();

 private:
  jsonl_writer(std::filesystem::path path, base::unique_fd file, std::int64_t size)
      : path_(std::move(path)), file_(std::move(file)), size_(size) {}
  std::filesystem::path path_;
  base::unique_fd file_;
  std::int64_t size_ = 0;
};

/// Calls `line` for each whole line in order, stopping at its first error. A torn last line is left
/// out; a whole line that is not JSON is `corrupt` with its number.
base::status read_jsonl(const std::filesystem::path& path,
                        const std::function<base::status(const base::json&)>& line);

/// The last whole line that is JSON, of the newest `within` bytes; null: there is none, or no file.
/// Quick, however long the file is. Errors: it cannot be read.
base::expected<base::ordered_json> last_line_of(const std::filesystem::path& path,
                                                std::int64_t within = 1 << 20);

struct damaged_lines {
  std::int64_t count = 0;
  std::string first;  ///< what is wrong with the first, with file and number
};

/// As read_jsonl for what may have gaps, such as metrics: a whole line that is not JSON is left
/// out, and the reading goes on behind it. Those that were.
base::expected<damaged_lines> read_jsonl_past_damage(
    const std::filesystem::path& path, const std::function<base::status(const base::json&)>& line);

}  // namespace quern::storage
