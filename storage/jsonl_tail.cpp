#include "storage/jsonl_tail.hpp"

#include <algorithm>
#include <cerrno>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.hpp"

namespace quern::storage {
namespace {

/// A line of metrics has a few kilobytes; the longest that is waited for.
constexpr std::int64_t tail_piece = std::int64_t{4} << 20;

}  // namespace

std::size_t jsonl_tail::take(std::string_view piece,
                             const std::function<void(const base::json&)>& line) {
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = piece.find('\n', begin);
    if (end == std::string_view::npos) return begin;
    ++lines_;
    const auto value = base::parse_json(piece.substr(begin, end - begin));
    begin = end + 1;
    if (value) {
      line(*value);
    } else if (damaged_.count++ == 0) {
      damaged_.first = fmt::format("{} line {}: {}", path_.string(), lines_, value.error().message);
    }
  }
}

base::expected<damaged_lines> jsonl_tail::read(const std::function<void(const base::json&)>& line) {
  const base::unique_fd file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file && errno == ENOENT) return damaged_;
  if (!file) return base::fail_errno("cannot open " + path_.string());
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return base::fail_errno("cannot look at " + path_.string());
  if (info.st_size < read_) {
    read_ = lines_ = 0;
    damaged_ = {};
  }
  std::string piece;
  while (read_ < info.st_size) {
    piece.resize(static_cast<std::size_t>(std::min(tail_piece, info.st_size - read_)));
    const ssize_t got = ::pread(file.get(), piece.data(), piece.size(), read_);
    if (got < 0) return base::fail_errno("cannot read " + path_.string());
    const std::size_t taken =
        take(std::string_view(piece).substr(0, static_cast<std::size_t>(got)), line);
    read_ += static_cast<std::int64_t>(taken);
    if (taken > 0) continue;
    if (got < tail_piece) break;
    return base::fail(base::errc::corrupt,
                      "{} line {} has more than {} bytes, which no line of metrics has: "
                      "repair the file or delete the line",
                      path_.string(), lines_ + 1, tail_piece);
  }
  return damaged_;
}

}  // namespace quern::storage
