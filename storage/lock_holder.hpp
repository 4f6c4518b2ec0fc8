// Which process keeps a SQLite database from being written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quern::storage {

/// A line of /proc/locks.
struct file_lock {
  std::int64_t pid = 0;
  bool exclusive = false;
  std::uint32_t major = 0, minor = 0;  ///< of the file's device
  std::uint64_t inode = 0;
  std::int64_t first = 0;  ///< byte
};

/// Locks that are held, those of processes of this PID namespace; what cannot be read is left out.
std::vector<file_lock> read_locks(std::string_view proc_locks);

/// "process 4711 (sqlite3)": another process that has the write lock of `database`, else one that
/// has it locked for itself, else one that reads it; "another process" where the system does not
/// tell. Opens neither the database nor its -shm: closing them would give up this process's own
/// locks.
std::string holder_text(const std::filesystem::path& database);

}  // namespace quern::storage
