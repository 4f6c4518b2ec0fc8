#include "storage/lock_holder.hpp"

#include <algorithm>
#include <charconv>
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
  if (!read_number(file.substr(0, 2), lock.major, 16) ||
      !read_number(file.substr(3, colon - 3), lock.minor, 16) ||
      !read_number(file.substr(colon + 1), lock.inode) || !read_number(take_word(line), lock.first))
    return std::nullopt;
  return lock;
}

/// How much it says that the lock keeps others from writing; 0: nothing.
int weight_of(const file_lock& lock, const std::optional<struct stat>& main,
              const std::optional<struct stat>& memory) {
  const auto is_of = [&](const std::optional<struct stat>& file) {
    return file && file->st_ino == lock.inode && ::major(file->st_dev) == lock.major &&
           ::minor(file->st_dev) == lock.minor;
  };
  const bool of_memory = is_of(memory);
  if (!of_memory && !is_of(main)) return 0;
  if (!lock.exclusive) return 1;
  return of_memory && lock.first == wal_write_lock ? 3 : 2;
}

std::optional<struct stat> look_at(const std::filesystem::path& file) {
  struct stat info {};
  return ::stat(file.c_str(), &info) == 0 ? std::optional(info) : std::nullopt;
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

std::string holder_text(const std::filesystem::path& database) {
  const auto main = look_at(database), memory = look_at(database.string() + "-shm");
  int best = 0;
  std::int64_t pid = 0;
  for (const file_lock& lock :
       read_locks(base::read_file("/proc/locks", most_bytes).value_or(""))) {
    const int weight = weight_of(lock, main, memory);
    if (lock.pid == ::getpid() || weight <= best) continue;
    best = weight;
    pid = lock.pid;
  }
  if (pid == 0) return "another process";
  std::string name = base::read_file(fmt::format("/proc/{}/comm", pid)).value_or("");
  name = name.substr(0, name.find('\n'));
  return fmt::format("process {}{}", pid, name.empty() ? "" : " (" + name + ")");
}

}  // namespace quern::storage
