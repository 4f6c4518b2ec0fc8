// The schema of run.db: tables, and the triggers that make the law hold whoever writes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/status.hpp"

namespace quern::storage {

class database;

/// PRAGMA user_version of the files that this build writes and reads.
inline constexpr int schema_version = 2;
/// The earlier schema that readers read as it is, and that `database::migrate` brings to this one.
inline constexpr int earlier_schema = 1;
/// PRAGMA application_id: "Qurn".
inline constexpr int application_id = 0x5175726E;

/// The statements that make an empty database a ledger.
const char* schema_sql();

/// Makes the schema in an empty database, or checks that the one found is ours. Result: the schema
/// of the file, `earlier_schema` only where `writes` is false. Errors: another one is `version`,
/// something else `corrupt`. `name` is for the message.
base::expected<std::int64_t> prepare_schema(database& db, const std::string& name, bool writes);

/// Whether `bytes` for the copy of `file` that `database::migrate` keeps are free; nobody knows:
/// yes.
/// Error: `io`, with both numbers and what to do.
base::status check_room_of_copy(const std::filesystem::path& file, std::uint64_t bytes,
                                std::optional<std::uint64_t> free);

/// The schema as SQLite holds it, and the table of legal pairs: text for the golden test.
base::expected<std::string> dump_schema(database& db);

}  // namespace quern::storage
