#include "storage/sql_error.hpp"

#include <cerrno>

namespace quern::storage {
namespace {

/// The file of a connection; "run.db" where none is known.
std::string_view file_of(sqlite3* handle) {
  const char* const name = handle != nullptr ? sqlite3_db_filename(handle, "main") : nullptr;
  return name != nullptr && *name != '\0' ? name : "run.db";
}

std::string advice(sqlite3* handle, int code) {
  switch (code & 0xFF) {
    case SQLITE_FULL:
      return "; make room on the disk and resume the run";
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return "; another process holds the file: only one may write a run";
    case SQLITE_CANTOPEN:
      return "; check that it and its folder are there and may be written";
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
      return fmt::format("; restore {} from a copy of the run", file_of(handle));
    case SQLITE_READONLY:
      if (code == SQLITE_READONLY_ROLLBACK)
        return fmt::format(
            "; a process was killed while it changed {0}, and {0}-journal has what "
            "it was before: quern resume takes that back",
            file_of(handle));
      return "; it was opened for reading only";
    default:
      return "";
  }
}

/// What the system said behind it, as of a disk that is gone or a limit (ulimit -f).
std::string system_text(sqlite3* handle, int code) {
  const bool asked = (code & 0xFF) == SQLITE_IOERR || (code & 0xFF) == SQLITE_CANTOPEN;
  const int number = asked && handle != nullptr ? sqlite3_system_errno(handle) : 0;
  if (number == 0) return {};
  errno = number;
  return fmt::format(" ({})", base::fail_errno("system").value().message);
}

}  // namespace

base::errc kind_of(int code) {
  switch (code & 0xFF) {
    case SQLITE_CONSTRAINT:
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_READONLY:
      return base::errc::conflict;
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
      return base::errc::io;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return base::errc::corrupt;
    case SQLITE_TOOBIG:
    case SQLITE_NOMEM:
      return base::errc::exhausted;
    default:
      return base::errc::internal;
  }
}

tl::unexpected<base::error> sql_fail(sqlite3* handle, int code, std::string_view doing) {
  const char* text = handle != nullptr ? sqlite3_errmsg(handle) : sqlite3_errstr(code);
  return base::fail(kind_of(code), "{}: {}{}{}", doing, text, system_text(handle, code),
                    advice(handle, code));
}

}  // namespace quern::storage
