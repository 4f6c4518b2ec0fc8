// Which process keeps a SQLite database from being written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quern::storage {

/// By which /proc/locks names a file.
struct file_id {
  std::uint32_t major = 0, minor = 0;  ///< of its device
  std::uint64_t inode = 0;

  friend bool operator==(const file_id&, const file_id&) = default;
};

/// A line of /proc/locks.
struct file_lock {
  std::int64_t pid = 0;
  bool exclusive = false;
  file_id file;
  std::int64_t first = 0, last = 0;  ///< bytes; a lock up to the end has the largest number
};

/// Locks that are held, those of processes of this PID namespace; what cannot be read is left out.
std::vector<file_lock> read_locks(std::string_view proc_locks);

/// Process that keeps others from writing a database: it has the write lock of the log (`memory` is
/// the -shm file), or has locked the main file for itself. Readers, and checkpoints that run beside
/// writers, keep nobody from writing: they are never named. `own` is left out. None: the writer is
/// not among `locks`.
std::optional<std::int64_t> writer_among(const std::vector<file_lock>& locks,
                                         const std::optional<file_id>& main,
                                         const std::optional<file_id>& memory, std::int64_t own);

/// Who keeps `database` from being written.
struct lock_holder {
  std::string who;     ///< "process 4711 (sqlite3)", or that it cannot be seen from here
  std::string remedy;  ///< what a person does to end it, without a subject: "end that process ..."
};

/// Opens neither the database nor its -shm: closing them would give up this process's own locks.
lock_holder holder_of(const std::filesystem::path& database);

}  // namespace quern::storage
