// SQLite's result codes as our errors. Included by storage's own .cpp files only.
#pragma once

#include <string_view>

#include <sqlite3.h>

#include "base/status.hpp"

namespace quern::storage {

/// The kind of failure behind an (extended) result code.
base::errc kind_of(int code);

/// `doing`: SQLite's text, and what to do where that is known.
tl::unexpected<base::error> sql_fail(sqlite3* handle, int code, std::string_view doing);

}  // namespace quern::storage
