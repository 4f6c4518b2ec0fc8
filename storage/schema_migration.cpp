// run.db of an earlier schema becomes one of the present schema: a copy first, then one
// transaction. Whatever ends the process, run.db is as it was before or has the present schema.
#include <algorithm>

#include <fcntl.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "storage/database.hpp"
#include "storage/disk_room.hpp"
#include "storage/schema.hpp"
#include "storage/schema1.hpp"
#include "storage/sql_error.hpp"

namespace quern::storage {
namespace fs = std::filesystem;
namespace {

/// Room that the transaction itself takes, with its journal: tens of kilobytes, and a margin.
constexpr std::uint64_t room_of_renames = 1U << 20U;

fs::path with_ending(const fs::path& file, std::string_view ending) {
  return file.string() + std::string(ending);
}

base::status sync_file(const fs::path& file) {
  const base::unique_fd handle(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!handle || ::fsync(handle.get()) != 0) return base::fail_errno("syncing " + file.string());
  return {};
}

std::string_view words_for(fs::file_type type) {
  switch (type) {
    case fs::file_type::directory:
      return "a folder";
    case fs::file_type::symlink:
      return "a symbolic link";
    default:
      return "a pipe, a socket or a device";
  }
}

/// Whether the copy, and the draft of it, can have their names. Only a file of an earlier attempt
/// is replaced: what else a person put there is no copy of run.db. Changes nothing.
base::status check_names_of_copy(const fs::path& file, const fs::path& copy,
                                 const fs::path& draft) {
  for (const fs::path& name : {copy, draft}) {
    std::error_code none;
    const fs::file_type type = fs::symlink_status(name, none).type();
    if (type == fs::file_type::regular || type == fs::file_type::not_found) continue;
    return base::fail(base::errc::conflict,
                      "{} is {}, but the copy of {}, which has schema 1, needs this name: move it "
                      "away and resume the run; nothing was changed",
                      name.string(), words_for(type), file.string());
  }
  return {};
}

std::uint64_t bytes_of(const fs::path& file) {
  std::error_code code;
  const auto size = fs::file_size(file, code);
  return code ? 0 : size;
}

/// Objects of a database by name, as SQLite writes them. It puts quotes around the name of a table
/// that was renamed.
base::expected<std::vector<std::pair<std::string, std::string>>> objects_of(database& db) {
  std::vector<std::pair<std::string, std::string>> found;
  QUERN_TRY(statement rows, db.prepare("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL "
                                       "ORDER BY name"));
  while (true) {
    QUERN_TRY(const bool row, rows.next());
    if (!row) return found;
    std::string text = rows.text(1);
    text.erase(std::remove(text.begin(), text.end(), '"'), text.end());
    found.emplace_back(rows.text(0), std::move(text));
  }
}

/// Triggers of the present schema that `db` lacks are made; then every object must be as in a
/// database that is made anew. What a person has added beside them stays.
base::status complete(database& db, database& pattern) {
  QUERN_TRY(const auto wanted, objects_of(pattern));
  QUERN_TRY(const auto before, objects_of(db));
  const auto text_in = [](const auto& objects, const std::string& name) -> const std::string* {
    const auto found = std::find_if(objects.begin(), objects.end(),
                                    [&](const auto& one) { return one.first == name; });
    return found == objects.end() ? nullptr : &found->second;
  };
  for (const auto& [name, text] : wanted)
    if (text_in(before, name) == nullptr && text.starts_with("CREATE TRIGGER"))
      QUERN_CHECK(db.execute(text.c_str()));
  QUERN_TRY(const auto after, objects_of(db));
  for (const auto& [name, text] : wanted) {
    const std::string* const made = text_in(after, name);
    if (made == nullptr || *made != text)
      return base::fail(base::errc::corrupt,
                        "'{}' is not as schema 1 has it, so that it cannot become schema {}: put "
                        "run.db back from a copy of the run, or go on with the build that made it "
                        "(meta.json names it)",
                        name, schema_version);
  }
  return {};
}

base::expected<std::int64_t> newest_event(database& db) {
  QUERN_TRY(statement query, db.prepare("SELECT coalesce(max(seq), 0) FROM events"));
  QUERN_TRY(const bool row, query.next());
  return row ? query.integer(0) : 0;
}

/// A copy of all that is committed, on the disk under its name only when it is whole. It replaces
/// one that an earlier attempt has made: run.db may have gone on with an earlier build since then.
base::status keep_copy(database& db, const fs::path& file, const fs::path& copy) {
  const fs::path draft = with_ending(copy, ".draft");
  QUERN_CHECK(check_names_of_copy(file, copy, draft));
  std::error_code code;
  for (const char* ending : {"", "-journal"})
    fs::remove(with_ending(draft, ending), code);
  const std::uint64_t needed =
      bytes_of(file) + bytes_of(with_ending(file, "-wal")) + room_of_renames;
  QUERN_CHECK(check_room_of_copy(file, needed, free_bytes(file.parent_path())));
  {
    QUERN_TRY(statement copying, db.prepare("VACUUM INTO ?"));
    QUERN_CHECK(copying.bind(1, draft.string()).run());
  }
  QUERN_CHECK(sync_file(draft));
  {
    QUERN_TRY(const auto made, database::open(draft, database::access::read));
    QUERN_TRY(const std::int64_t kept, newest_event(*made));
    QUERN_TRY(const std::int64_t wanted, newest_event(db));
    if (kept != wanted)
      return base::fail(base::errc::corrupt,
                        "a copy of {} has {} events, {} are needed: resume the run again",
                        file.string(), kept, wanted);
  }
  fs::rename(draft, copy, code);
  if (code)
    return base::fail(base::errc::io, "renaming {} to {}: {}", draft.string(), copy.string(),
                      code.message());
  return base::sync_folder(file.parent_path());
}

}  // namespace

base::status check_room_of_copy(const fs::path& file, std::uint64_t bytes,
                                std::optional<std::uint64_t> free) {
  if (!free || *free >= bytes) return {};
  return base::fail(base::errc::io,
                    "{} has schema 1, and becomes schema {} when a copy of it is kept: that takes "
                    "{}, {} are free for {}; make room and resume the run, nothing was changed",
                    file.string(), schema_version, base::human_bytes(bytes),
                    base::human_bytes(*free), file.parent_path().string());
}

base::status database::rename_from_schema1() {
  QUERN_TRY(auto pattern, open_file(":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE));
  QUERN_CHECK(prepare_schema(*pattern, "the pattern of a ledger", true));
  // With the log, as a run keeps it: readers see the schema before or the one after, and never a
  // journal that has to be played back first.
  QUERN_CHECK(begin_log(path_.string()));
  QUERN_CHECK(execute("PRAGMA foreign_keys = OFF; BEGIN IMMEDIATE"));
  const auto renamed = [&]() -> base::status {
    QUERN_CHECK(execute(schema1_renames()));
    QUERN_CHECK(complete(*this, *pattern));
    return execute(fmt::format("PRAGMA user_version = {}; COMMIT", schema_version).c_str());
  }();
  if (!renamed) sqlite3_exec(handle_, "ROLLBACK", nullptr, nullptr, nullptr);
  return renamed;
}

base::expected<std::optional<fs::path>> database::migrate(const fs::path& path) {
  // Where there is none the writer makes one.
  if (bytes_of(path) == 0) return std::optional<fs::path>();
  QUERN_TRY(auto db, open_file(path.c_str(), SQLITE_OPEN_READWRITE));
  db->path_ = path;
  QUERN_TRY(const std::int64_t found, prepare_schema(*db, path.string(), false));
  if (found == schema_version) return std::optional<fs::path>();
  if (sqlite3_db_readonly(db->handle_, "main") == 1)
    return base::fail(base::errc::io,
                      "{} has schema {}, this build writes schema {}, and the file may not be "
                      "written: make it and its folder writable, or copy the run to where they are",
                      path.string(), found, schema_version);
  const fs::path copy = with_ending(path, ".schema1");
  QUERN_CHECK(db->had(keep_copy(*db, path, copy)));
  QUERN_CHECK(db->had(db->rename_from_schema1()));
  return std::optional(copy);
}

}  // namespace quern::storage
