#include "storage/jsonl.hpp"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace quern::storage {
namespace {

/// Where the last whole line ends.
base::expected<std::int64_t> whole_end(int fd, std::int64_t size, const std::string& name) {
  char buffer[4096];
  std::int64_t end = size;
  while (end > 0) {
    const std::int64_t begin = std::max<std::int64_t>(0, end - std::int64_t{sizeof buffer});
    const ssize_t got = ::pread(fd, buffer, static_cast<std::size_t>(end - begin), begin);
    if (got != end - begin) return base::fail_errno("cannot read " + name);
    for (ssize_t i = got; i-- > 0;) {
      if (buffer[i] == '\n') return begin + i + 1;
    }
    end = begin;
  }
  return 0;
}

/// `damaged` is told of each whole line that is not JSON; its error ends the reading.
base::status read_lines(const std::filesystem::path& path,
                        const std::function<base::status(const base::json&)>& line,
                        const std::function<base::status(const base::error&)>& damaged) {
  // Metrics of a long run are some hundred megabytes at most.
  QUERN_TRY(const std::string text, base::read_file(path, std::size_t{4} << 30U));
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) return {};
    ++number;
    const auto value = base::parse_json(std::string_view(text).substr(begin, end - begin));
    begin = end + 1;
    if (value) {
      QUERN_CHECK(line(*value));
    } else {
      QUERN_CHECK(damaged({base::errc::corrupt, fmt::format("{} line {}: {}", path.string(), number,
                                                            value.error().message)}));
    }
  }
  return {};
}

}  // namespace

base::expected<jsonl_writer> jsonl_writer::open(const std::filesystem::path& path) {
  base::unique_fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!file) return base::fail_errno("cannot open " + path.string());
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return base::fail_errno("cannot look at " + path.string());
  QUERN_TRY(const std::int64_t end, whole_end(file.get(), info.st_size, path.string()));
  if (end < info.st_size && ::ftruncate(file.get(), end) != 0) {
    return base::fail_errno("cannot cut the torn line off " + path.string());
  }
  return jsonl_writer(path, std::move(file), end);
}

base::status jsonl_writer::append(const base::ordered_json& line) {
  const std::string text = base::dump(line) + "\n";
  if (auto written = base::write_all(file_.get(), text); !written) {
    // Half a line would make one line of it and the next; if this fails as well, a reader names
    // that line.
    if (::ftruncate(file_.get(), size_) != 0) {
      written.error().message += "; and the torn line could not be taken back";
    }
    return base::in_context("a line of " + path_.string(), written.error());
  }
  size_ += static_cast<std::int64_t>(text.size());
  return {};
}

base::status jsonl_writer::sync() {
  if (::fdatasync(file_.get()) != 0) return base::fail_errno("cannot sync " + path_.string());
  return {};
}

base::expected<base::ordered_json> last_line_of(const std::filesystem::path& path,
                                                std::int64_t within) {
  const base::unique_fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file && errno == ENOENT) return nullptr;
  if (!file) return base::fail_errno("cannot open " + path.string());
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return base::fail_errno("cannot look at " + path.string());
  const std::int64_t begin = std::max<std::int64_t>(0, info.st_size - within);
  std::string text(static_cast<std::size_t>(info.st_size - begin), '\0');
  const ssize_t got = ::pread(file.get(), text.data(), text.size(), begin);
  if (got < 0) return base::fail_errno("cannot read " + path.string());
  text.resize(static_cast<std::size_t>(got));
  for (std::size_t end = text.rfind('\n'); end != std::string::npos;) {
    const std::size_t before = end == 0 ? std::string::npos : text.rfind('\n', end - 1);
    // The start of the first one may be left out.
    if (before == std::string::npos && begin > 0) break;
    const std::size_t first = before == std::string::npos ? 0 : before + 1;
    auto line = base::ordered_json::parse(text.substr(first, end - first), nullptr, false);
    if (!line.is_discarded()) return line;
    end = before;
  }
  return nullptr;
}

base::status read_jsonl(const std::filesystem::path& path,
                        const std::function<base::status(const base::json&)>& line) {
  return read_lines(path, line,
                    [](const base::error& damage) { return tl::make_unexpected(damage); });
}

base::expected<damaged_lines> read_jsonl_past_damage(
    const std::filesystem::path& path, const std::function<base::status(const base::json&)>& line) {
  damaged_lines damaged;
  QUERN_CHECK(read_lines(path, line, [&](const base::error& damage) -> base::status {
    if (damaged.count++ == 0) damaged.first = damage.message;
    return {};
  }));
  return damaged;
}

}  // namespace quern::storage
