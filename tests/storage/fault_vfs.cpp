#include "fault_vfs.hpp"

#include <csignal>
#include <cstring>
#include <new>

namespace quern::test {

/// What SQLite gets: in memory the file of the file system below lies right behind it.
struct fault_vfs::file {
  sqlite3_file base;
  fault_vfs* owner;
  [[nodiscard]] sqlite3_file* below() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};

struct fault_vfs::methods {
  static file& of(sqlite3_file* handle) { return *reinterpret_cast<file*>(handle); }
  static sqlite3_file* below(sqlite3_file* handle) { return of(handle).below(); }

  static int close(sqlite3_file* f) { return below(f)->pMethods->xClose(below(f)); }
  static int read(sqlite3_file* f, void* to, int size, sqlite3_int64 at) {
    fault_vfs& owner = *of(f).owner;
    if (!owner.fails(call_kind::read)) return below(f)->pMethods->xRead(below(f), to, size, at);
    if (owner.fault_ == disk_fault::read_error) return SQLITE_IOERR_READ;
    const int code = below(f)->pMethods->xRead(below(f), to, size, at);
    std::memset(static_cast<char*>(to) + size / 2, 0, static_cast<std::size_t>(size - size / 2));
    return code == SQLITE_OK ? SQLITE_IOERR_SHORT_READ : code;
  }
  static int write(sqlite3_file* f, const void* from, int size, sqlite3_int64 at) {
    fault_vfs& owner = *of(f).owner;
    if (!owner.fails(call_kind::change))
      return below(f)->pMethods->xWrite(below(f), from, size, at);
    const disk_fault what = owner.fault_;
    if (what == disk_fault::short_full || what == disk_fault::short_io_error)
      below(f)->pMethods->xWrite(below(f), from, size / 2, at);
    const bool full = what == disk_fault::full || what == disk_fault::short_full;
    return full ? SQLITE_FULL : SQLITE_IOERR_WRITE;
  }
  static int truncate(sqlite3_file* f, sqlite3_int64 size) {
    if (of(f).owner->fails(call_kind::change)) return SQLITE_IOERR_TRUNCATE;
    return below(f)->pMethods->xTruncate(below(f), size);
  }
  static int sync(sqlite3_file* f, int /*flags*/) {
    return of(f).owner->fails(call_kind::change) ? SQLITE_IOERR_FSYNC : SQLITE_OK;
  }
  static int size(sqlite3_file* f, sqlite3_int64* size) {
    if (of(f).owner->fails(call_kind::status)) return SQLITE_IOERR_FSTAT;
    return below(f)->pMethods->xFileSize(below(f), size);
  }
  static int lock(sqlite3_file* f, int level) {
    if (of(f).owner->fails(call_kind::lock)) return SQLITE_IOERR_LOCK;
    return below(f)->pMethods->xLock(below(f), level);
  }
  static int unlock(sqlite3_file* f, int level) {
    return below(f)->pMethods->xUnlock(below(f), level);
  }
  static int check_lock(sqlite3_file* f, int* held) {
    return below(f)->pMethods->xCheckReservedLock(below(f), held);
  }
  static int control(sqlite3_file* f, int what, void* value) {
    return below(f)->pMethods->xFileControl(below(f), what, value);
  }
  static int sector(sqlite3_file* f) { return below(f)->pMethods->xSectorSize(below(f)); }
  static int traits(sqlite3_file* f) {
    return below(f)->pMethods->xDeviceCharacteristics(below(f));
  }
  static int map(sqlite3_file* f, int page, int size, int extend, void volatile** to) {
    if (of(f).owner->fails(call_kind::map)) return SQLITE_IOERR_SHMMAP;
    return below(f)->pMethods->xShmMap(below(f), page, size, extend, to);
  }
  static int shared_lock(sqlite3_file* f, int offset, int n, int flags) {
    const bool locks = (flags & SQLITE_SHM_LOCK) != 0;
    if (locks && of(f).owner->fails(call_kind::lock)) return SQLITE_IOERR_SHMLOCK;
    return below(f)->pMethods->xShmLock(below(f), offset, n, flags);
  }
  static void barrier(sqlite3_file* f) { below(f)->pMethods->xShmBarrier(below(f)); }
  static int unmap(sqlite3_file* f, int remove) {
    return below(f)->pMethods->xShmUnmap(below(f), remove);
  }

  static sqlite3_io_methods table(int version) {
    sqlite3_io_methods all{};
    all.iVersion = version;
    all.xClose = close;
    all.xRead = read;
    all.xWrite = write;
    all.xTruncate = truncate;
    all.xSync = sync;
    all.xFileSize = size;
    all.xLock = lock;
    all.xUnlock = unlock;
    all.xCheckReservedLock = check_lock;
    all.xFileControl = control;
    all.xSectorSize = sector;
    all.xDeviceCharacteristics = traits;
    if (version < 2) return all;
    all.xShmMap = map;
    all.xShmLock = shared_lock;
    all.xShmBarrier = barrier;
    all.xShmUnmap = unmap;
    return all;
  }

  static int open(sqlite3_vfs* vfs, const char* name, sqlite3_file* f, int flags, int* got) {
    static const sqlite3_io_methods with_memory = table(2), without_memory = table(1);
    auto& owner = *static_cast<fault_vfs*>(vfs->pAppData);
    file* const made = new (f) file{};
    made->owner = &owner;
    if (owner.fails(call_kind::open)) return SQLITE_CANTOPEN;
    const int code = owner.below_->xOpen(owner.below_, name, made->below(), flags, got);
    // SQLite closes a file only where there are methods.
    if (made->below()->pMethods != nullptr)
      made->base.pMethods = owner.shared_memory_ ? &with_memory : &without_memory;
    return code;
  }
  static int remove(sqlite3_vfs* vfs, const char* name, int sync_folder) {
    auto& owner = *static_cast<fault_vfs*>(vfs->pAppData);
    if (owner.fails(call_kind::remove)) return SQLITE_IOERR_DELETE;
    return owner.below_->xDelete(owner.below_, name, sync_folder);
  }
  static int access(sqlite3_vfs* vfs, const char* name, int flags, int* result) {
    auto& owner = *static_cast<fault_vfs*>(vfs->pAppData);
    if (owner.fails(call_kind::status)) return SQLITE_IOERR_ACCESS;
    return owner.below_->xAccess(owner.below_, name, flags, result);
  }
};

fault_vfs::fault_vfs() : below_(sqlite3_vfs_find(nullptr)), own_(*below_) {
  own_.zName = "quern-faults";
  own_.pNext = nullptr;
  own_.pAppData = this;
  own_.szOsFile = static_cast<int>(sizeof(file)) + below_->szOsFile;
  own_.xOpen = methods::open;
  own_.xDelete = methods::remove;
  own_.xAccess = methods::access;
  sqlite3_vfs_register(&own_, 1);
}

fault_vfs::~fault_vfs() {
  sqlite3_vfs_unregister(&own_);
  sqlite3_vfs_register(below_, 1);
}

void fault_vfs::fail_at(std::int64_t call, disk_fault what, bool from_then_on) {
  calls_ = 0;
  fail_from_ = call;
  fault_ = what;
  from_then_on_ = from_then_on;
  fired_ = false;
}

fault_vfs::call_kind fault_vfs::call_of(disk_fault what) {
  switch (what) {
    case disk_fault::read_error:
    case disk_fault::short_read:
      return call_kind::read;
    case disk_fault::cannot_open:
      return call_kind::open;
    case disk_fault::delete_error:
      return call_kind::remove;
    case disk_fault::map_error:
      return call_kind::map;
    case disk_fault::lock_error:
      return call_kind::lock;
    case disk_fault::status_error:
      return call_kind::status;
    default:
      return call_kind::change;
  }
}

bool fault_vfs::fails(call_kind made) {
  if ((made == call_kind::change || made == call_kind::open || made == call_kind::remove) &&
      changes_++ == kill_at_)
    ::raise(SIGKILL);
  if (made != call_of(fault_)) return false;
  const std::int64_t number = calls_++;
  const bool failing = from_then_on_ ? number >= fail_from_ : number == fail_from_;
  fired_ = fired_ || failing;
  return failing;
}

}  // namespace quern::test
