#include "storage/sql_error.hpp"

namespace quern::storage {
namespace {

std::string_view advice(int code) {
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
      return "; restore run.db from a copy";
    case SQLITE_READONLY:
      return "; it was opened for reading only";
    default:
      return "";
  }
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
  return base::fail(kind_of(code), "{}: {}{}", doing, text, advice(code));
}

}  // namespace quern::storage
