#include "storage/schema.hpp"

#include "storage/database.hpp"
#include "storage/sample_state.hpp"

namespace quern::storage {
namespace {

base::expected<std::int64_t> ask(database& db, std::string_view question) {
  QUERN_TRY(statement query, db.prepare(question));
  QUERN_TRY(const bool row, query.next());
  return row ? query.integer(0) : 0;
}

/// The table of legal pairs is written from the same function that the code decides by.
std::string pairs_sql() {
  std::string sql;
  for (const sample_state from : all_sample_states) {
    for (const sample_state to : all_sample_states) {
      const step_kind kind = step_between(from, to);
      if (kind == step_kind::illegal) continue;
      sql += fmt::format("INSERT INTO pairs VALUES ('{}', '{}', '{}');", to_string(from),
                         to_string(to), kind == step_kind::forward ? "forward" : "backward");
    }
  }
  return sql;
}

}  // namespace

base::expected<std::int64_t> prepare_schema(database& db, const std::string& name, bool writes) {
  QUERN_TRY(const std::int64_t found, ask(db, "PRAGMA user_version"));
  QUERN_TRY(const std::int64_t owner, ask(db, "PRAGMA application_id"));
  QUERN_TRY(const std::int64_t tables, ask(db, "SELECT count(*) FROM sqlite_master"));
  if (tables == 0 && found == 0) {
    if (!writes)
      return base::fail(base::errc::corrupt, "{} is an empty database: put it back from a copy",
                        name);
    const std::string script = fmt::format(
        "BEGIN IMMEDIATE; {} {} PRAGMA application_id = {}; PRAGMA user_version = {}; COMMIT",
        schema_sql(), pairs_sql(), application_id, schema_version);
    QUERN_CHECK(db.execute(script.c_str()));
    return schema_version;
  }
  if (owner != application_id) {
    return base::fail(base::errc::corrupt,
                      "{} is a SQLite file, but not a ledger of Quern: put the run's own back",
                      name);
  }
  if (found == earlier_schema && writes) {
    return base::fail(
        base::errc::version,
        "{} has schema {}, this build writes schema {}: quern resume RUN brings it to "
        "that schema, and keeps a copy beside it",
        name, found, schema_version);
  }
  if (found != schema_version && found != earlier_schema) {
    return base::fail(base::errc::version,
                      "{} has schema {}, this build writes schema {} and reads schema {}, too: use "
                      "the build that made it (meta.json names it)",
                      name, found, schema_version, earlier_schema);
  }
  return found;
}

base::expected<std::string> dump_schema(database& db) {
  QUERN_TRY(const std::int64_t version, ask(db, "PRAGMA user_version"));
  QUERN_TRY(const std::int64_t owner, ask(db, "PRAGMA application_id"));
  std::string text = fmt::format("user_version {}\napplication_id {:#x}\n\n", version, owner);
  QUERN_TRY(statement objects, db.prepare("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL "
                                          "ORDER BY type, name"));
  while (true) {
    QUERN_TRY(const bool row, objects.next());
    if (!row) break;
    text += objects.text(0) + ";\n\n";
  }
  QUERN_TRY(statement pairs, db.prepare("SELECT old, new, kind FROM pairs ORDER BY old, new"));
  while (true) {
    QUERN_TRY(const bool row, pairs.next());
    if (!row) break;
    text += fmt::format("{} > {}: {}\n", pairs.text(0), pairs.text(1), pairs.text(2));
  }
  return text;
}

}  // namespace quern::storage
