// A file system for SQLite that fails where it is told to: every call of one kind has a number, and
// one of them (or all from there on) does not do what was asked.
#pragma once

#include <cstdint>

#include <sqlite3.h>

namespace quern::test {

enum class disk_fault {
  // Of writes; truncations and syncs are counted with them and have their own I/O errors.
  full,            ///< a write writes nothing: no space left
  io_error,        ///< a write writes nothing: I/O error
  short_full,      ///< a write writes its first half, then there is no space left
  short_io_error,  ///< a write writes its first half, then an I/O error
  // Each of the calls that it names alone.
  read_error,    ///< xRead reads nothing: I/O error
  short_read,    ///< xRead reads the first half: the file ends there
  cannot_open,   ///< xOpen
  delete_error,  ///< xDelete: the file stays
  map_error,     ///< xShmMap
  lock_error,    ///< xLock and xShmLock, not where they unlock
  status_error   ///< xAccess and xFileSize
};

/// The default file system of this process's SQLite from construction to destruction, over the one
/// that was before; syncs reach no disk. Connections must be gone before it is. One thread.
class fault_vfs {
 public:
  fault_vfs();
  ~fault_vfs();
  fault_vfs(const fault_vfs&) = delete;
  fault_vfs& operator=(const fault_vfs&) = delete;

  /// From here on the calls that `what` is of are counted from 0; the one with this number fails,
  /// and where `from_then_on` all after it, too.
  void fail_at(std::int64_t call, disk_fault what, bool from_then_on);
  /// From here on calls that change files (writes, truncations, syncs, opens and deletions) are
  /// counted from 0; before the one with this number this process is killed.
  void kill_at(std::int64_t call) {
    changes_ = 0;
    kill_at_ = call;
  }
  /// No call fails any more.
  void heal() { fail_from_ = never; }
  /// A call was made to fail.
  [[nodiscard]] bool fired() const { return fired_; }
  /// Files have no memory in common, as on a file system on which WAL cannot be turned on.
  void without_shared_memory() { shared_memory_ = false; }

 private:
  static constexpr std::int64_t never = INT64_MAX;
  struct file;
  struct methods;
  enum class call_kind { change, read, open, remove, map, lock, status };
  static call_kind call_of(disk_fault what);
  bool fails(call_kind made);

  sqlite3_vfs* below_;
  sqlite3_vfs own_;
  std::int64_t calls_ = 0;
  std::int64_t fail_from_ = never;
  disk_fault fault_ = disk_fault::full;
  bool from_then_on_ = false;
  bool fired_ = false;
  std::int64_t changes_ = 0;
  std::int64_t kill_at_ = never;
  bool shared_memory_ = true;
};

}  // namespace quern::test
