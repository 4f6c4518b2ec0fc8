#include "storage/lock_holder.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/file.hpp"

namespace quern::storage {
namespace {

/// WAL_WRITE_LOCK in run.db-shm (sqlite.org/walformat.html, "WAL Locks").
constexpr std::int64_t wal_write_lock = 120;
/// PENDING_BYTE in run.db. From here on are the locks of the main file; without a log each of them
/// that is exclusive is a writer's, with one it means a connection that locks all others out.
constexpr std::int64_t first_main_lock = 0x40000000;
/// A busy host has thousands of locks.
constexpr std::size_t most_bytes = 16U << 20U;

/// The next word of `text`, which is taken off it.
std::string_view take_word(std::string_view& text) {
  const auto begin = std::min(text.find_first_not_of(' '), text.size());
  const auto end = std::min(text.find(' ', begin), text.size());
  const std::string_view word = text.substr(begin, end - begin);
  text.remove_prefix(end);
  return word;
}

template <class T>
bool read_number(std::string_view word, T& value, int base = 10) {
  const char* const end = word.data() + word.size();
  const auto read = std::from_chars(word.data(), end, value, base);
  return read.ec == std::errc() && read.ptr == end;
}

/// "1: POSIX  ADVISORY  WRITE 4711 08:01:1234 120 120"; those that wait have "->" behind the
/// number.
std::optional<file_lock> read_lock(std::string_view line) {
  file_lock lock;
  take_word(line);
  if (take_word(line) != "POSIX") return std::nullopt;
  take_word(line);
  lock.exclusive = take_word(line) == "WRITE";
  if (!read_number(take_word(line), lock.pid) || lock.pid <= 0) return std::nullopt;
  const std::string_view file = take_word(line);
  if (file.size() < 7 || file[2] != ':') return std::nullopt;
  const auto colon = file.find(':', 3);
  if (colon == std::string_view::npos) return std::nullopt;
  if (!read_number(file.substr(0, 2), lock.file.major, 16) ||
      !read_number(file.substr(3, colon - 3), lock.file.minor, 16) ||
      !read_number(file.substr(colon + 1), lock.file.inode) ||
      !read_number(take_word(line), lock.first))
    return std::nullopt;
  const std::string_view last = take_word(line);
  lock.last = std::numeric_limits<std::int64_t>::max();
  if (last != "EOF" && !read_number(last, lock.last)) return std::nullopt;
  return lock;
}

std::optional<file_id> id_of(const std::filesystem::path& file) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0) return std::nullopt;
  return file_id{::major(info.st_dev), ::minor(info.st_dev), info.st_ino};
}

}  // namespace

std::vector<file_lock> read_locks(std::string_view proc_locks) {
  std::vector<file_lock> locks;
  while (!proc_locks.empty()) {
    const auto end = std::min(proc_locks.find('\n'), proc_locks.size());
    if (const auto lock = read_lock(proc_locks.substr(0, end))) locks.push_back(*lock);
    proc_locks.remove_prefix(std::min(end + 1, proc_locks.size()));
  }
  return locks;
}

std::optional<std::int64_t> writer_among(const std::vector<file_lock>& locks,
                                         const std::optional<file_id>& main,
                                         const std::optional<file_id>& memory, std::int64_t own) {
  for (const file_lock& lock : locks) {
    if (!lock.exclusive || lock.pid == own) continue;
    const bool writes_log =
        lock.file == memory && lock.first <= wal_write_lock && lock.last >= wal_write_lock;
    const bool locks_main = lock.file == main && lock.last >= first_main_lock;
    if (writes_log || locks_main) return lock.pid;
  }
  return std::nullopt;
}

lock_holder holder_of(const std::filesystem::path& database) {
  const auto locks = read_locks(base::read_file("/proc/locks", most_bytes).value_or(""));
  const auto pid =
      writer_among(locks, id_of(database), id_of(database.string() + "-shm"), ::getpid());
  if (!pid)
    return {"a process that cannot be seen from here",
            fmt::format("find it outside of this container or in others that have the folder "
                        "(as root on the host: fuser {}), end it, or the transaction that it has "
                        "open",
                        database.string())};
  std::string name = base::read_file(fmt::format("/proc/{}/comm", *pid)).value_or("");
  name = name.substr(0, name.find('\n'));
  return {fmt::format("process {}{}", *pid, name.empty() ? "" : " (" + name + ")"),
          "end that process, or the transaction that it has open"};
}

}  // namespace quern::storage
