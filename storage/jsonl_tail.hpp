// A file of one JSON object a line that grows while it is read: each call reads what was added.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "base/json.hpp"
#include "base/status.hpp"
#include "storage/jsonl.hpp"

namespace quern::storage {

/// Not thread-safe.
class jsonl_tail {
 public:
  explicit jsonl_tail(std::filesystem::path path) : path_(std::move(path)) {}

  /// Calls `line` for each whole line behind those of the last call, in order. A torn last line
  /// waits for its end. A file that is not there has no lines. A file that is shorter than what was
  /// read of it is read from its beginning. Result: the lines so far that are not JSON; they are
  /// left out. Errors: the file cannot be read.
  base::expected<damaged_lines> read(const std::function<void(const base::json&)>& line);

 private:
  /// The lines of one piece of the file; how many of its bytes they take.
  std::size_t take(std::string_view piece, const std::function<void(const base::json&)>& line);

  std::filesystem::path path_;
  std::int64_t read_ = 0;   ///< bytes of whole lines
  std::int64_t lines_ = 0;  ///< of these bytes
  damaged_lines damaged_;
};

}  // namespace quern::storage
