// The schema of run.db: tables, and the triggers that make the law hold whoever writes.
#pragma once

#include <string>

#include "base/status.hpp"

namespace quern::storage {

class database;

/// PRAGMA user_version of the files that this build writes and reads.
inline constexpr int schema_version = 1;
/// PRAGMA application_id: "Qurn".
inline constexpr int application_id = 0x5175726E;

/// The statements that make an empty database a ledger.
const char* schema_sql();

/// Makes the schema in an empty database, or checks that the one found is ours: another version is
/// `version`, something else `corrupt`. `name` is for the message.
base::status prepare_schema(database& db, const std::string& name, bool may_create);

/// The schema as SQLite holds it, and the table of legal pairs: text for the golden test.
base::expected<std::string> dump_schema(database& db);

}  // namespace quern::storage
