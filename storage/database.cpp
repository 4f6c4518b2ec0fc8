#include "storage/database.hpp"

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>

#include "base/log.hpp"
#include "base/text.hpp"
#include "storage/lock_holder.hpp"
#include "storage/schema.hpp"
#include "storage/schema1.hpp"
#include "storage/sql_error.hpp"

namespace quern::storage {
namespace {

/// SQLite's memory statistics take a lock that is shared by all connections at each allocation:
/// simulations on many cores would wait for it most of the time. Only possible before first use;
/// where SQLite is in use already, the statistics stay on.
void leave_out_memory_statistics() {
  static std::once_flag once;
  std::call_once(once, [] { sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0); });
}

/// A name of a file as SQLite reads it from a URI.
std::string uri_of(const std::filesystem::path& path) {
  std::string uri = "file://";
  for (const char c : std::filesystem::absolute(path).string()) {
    if (c == '%' || c == '?' || c == '#')
      uri += fmt::format("%{:02x}", static_cast<unsigned char>(c));
    else
      uri += c;
  }
  return uri;
}

bool has_bytes(const std::filesystem::path& file) {
  std::error_code none;
  const auto size = std::filesystem::file_size(file, none);
  return !none && size > 0;
}

}  // namespace

base::expected<std::unique_ptr<database>> database::open_file(const char* name, int flags,
                                                              const char* vfs) {
  leave_out_memory_statistics();
  // The constructor is private: only a database that has been set up may be seen.
  std::unique_ptr<database> db(new database());
  const int code = sqlite3_open_v2(name, &db->handle_, flags | SQLITE_OPEN_NOMUTEX, vfs);
  if (code != SQLITE_OK) {
    return sql_fail(db->handle_, code, fmt::format("cannot open {}", name));
  }
  sqlite3_extended_result_codes(db->handle_, 1);
  sqlite3_busy_handler(db->handle_, on_busy, db.get());
  return db;
}

int database::on_busy(void* self, int attempt) {
  auto& db = *static_cast<database*>(self);
  const base::nanoseconds_t now = db.waiting_clock_.now_ns();
  const busy_wait::decision next = db.busy_.held(attempt, now);
  if (next.say)
    base::log_warn("storage", "{} has been held by {} for {}: waiting up to {} for it",
                   db.path_.string(), holder_of(db.path_).who,
                   base::human_duration(db.busy_.waited(now)),
                   base::human_duration(db.busy_.limits().longest));
  if (next.give_up) return 0;
  std::this_thread::sleep_for(std::chrono::nanoseconds(next.pause));
  return 1;
}

base::status database::had(base::status result) {
  const base::nanoseconds_t waited = busy_.waited(waiting_clock_.now_ns());
  if (result) {
    if (busy_.had())
      base::log_info("storage", "{} is free again, after {}", path_.string(),
                     base::human_duration(waited));
    return result;
  }
  if (result.error().code != base::errc::conflict || !busy_.gave_up()) return result;
  const lock_holder holder = holder_of(path_);
  return base::fail(base::errc::conflict,
                    "{} has been held by {} for {}, longer than a run waits: {}, and quern resume",
                    path_.string(), holder.who, base::human_duration(waited), holder.remedy);
}

base::expected<std::unique_ptr<database>> database::open(const std::filesystem::path& path,
                                                         access how, int batch_rows,
                                                         busy_limits patience) {
  const int flags =
      how == access::read ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  QUERN_TRY(auto db, open_file(path.c_str(), flags));
  db->batch_rows_ = batch_rows;
  db->path_ = path;
  if (how == access::write) db->busy_ = busy_wait(patience);
  QUERN_CHECK(db->had(db->set_up(how, path.string())));
  return db;
}

base::expected<std::unique_ptr<database>> database::open_untouched(
    const std::filesystem::path& path) {
  // Where all is in run.db, "immutable" keeps SQLite from making an empty log beside it.
  if (!has_bytes(path.string() + "-wal") && !has_bytes(path.string() + "-journal")) {
    auto whole =
        open_file((uri_of(path) + "?immutable=1").c_str(), SQLITE_OPEN_READONLY | SQLITE_OPEN_URI);
    if (whole) return whole;
    return base::fail(whole.error().code,
                      "cannot open {}; check that it and its folder are there and may be read",
                      path.string());
  }
  // A log is read with its index in memory of this process instead of in run.db-shm. SQLite does
  // that for a connection that has the file to itself, which one without locks believes to have.
  QUERN_TRY(auto db, open_file(path.c_str(), SQLITE_OPEN_READONLY, "unix-none"));
  sqlite3_db_config(db->handle_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  QUERN_CHECK(db->execute("PRAGMA locking_mode = EXCLUSIVE"));
  return db;
}

base::status database::check_untouched(const std::filesystem::path& path) {
  QUERN_TRY(auto db, open_untouched(path));
  db->path_ = path;
  QUERN_TRY(db->schema_, prepare_schema(*db, path.string(), false));
  return db->quick_check();
}

base::status database::take_back_interrupted(const std::filesystem::path& path) {
  std::error_code none;
  if (!std::filesystem::exists(path.string() + "-journal", none)) return {};
  QUERN_TRY(auto db, open_file(path.c_str(), SQLITE_OPEN_READWRITE));
  // The first read finds the journal.
  return db->execute("PRAGMA user_version");
}

base::status database::copy_empty_schema() {
  // Simulations make ledgers by the hundred thousand; copying the pages of an empty one takes a
  // tenth of the time in which SQLite works through the schema's text.
  static std::mutex guard;
  static std::unique_ptr<database> pattern;
  const std::lock_guard<std::mutex> hold(guard);
  if (!pattern) {
    QUERN_TRY(auto made, open_file(":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE));
    QUERN_CHECK(prepare_schema(*made, "the pattern of a ledger", true));
    pattern = std::move(made);
  }
  sqlite3_backup* const copy = sqlite3_backup_init(handle_, "main", pattern->handle_, "main");
  if (copy == nullptr) return sql_fail(handle_, SQLITE_ERROR, "copying an empty ledger");
  const int stepped = sqlite3_backup_step(copy, -1);
  sqlite3_backup_finish(copy);
  if (stepped != SQLITE_DONE) return sql_fail(handle_, stepped, "copying an empty ledger");
  return {};
}

base::expected<std::unique_ptr<database>> database::in_memory(const base::clock* time,
                                                              int batch_rows) {
  QUERN_TRY(auto db, open_file(":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE));
  db->time_ = time;
  db->batch_rows_ = batch_rows;
  QUERN_CHECK(db->copy_empty_schema());
  QUERN_CHECK(db->set_up(access::write, "the ledger in memory"));
  return db;
}

base::status database::set_up(access how, const std::string& name) {
  // The check comes before anything is changed in a file that may not be ours.
  QUERN_TRY(schema_, prepare_schema(*this, name, how == access::write));
  const std::string settings =
      fmt::format("PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -{}",
                  page_cache_bytes / 1024);
  QUERN_CHECK(execute(settings.c_str()));
  if (schema_ == earlier_schema) return execute(schema1_views());
  if (how == access::read) return {};
  QUERN_CHECK(begin_log(name));
  QUERN_TRY(begin_, prepare("BEGIN IMMEDIATE"));
  QUERN_TRY(commit_, prepare("COMMIT"));
  QUERN_TRY(mark_, prepare("SAVEPOINT operation"));
  QUERN_TRY(release_, prepare("RELEASE operation"));
  QUERN_TRY(undo_, prepare("ROLLBACK TO operation"));
  writable_ = true;
  return {};
}

base::status database::begin_log(const std::string& name) {
  // Where it cannot, SQLite keeps the mode that it has and reports no error. A database in memory
  // has no log.
  QUERN_TRY(statement turned_on, prepare("PRAGMA journal_mode = WAL"));
  QUERN_TRY(const bool answered, turned_on.next());
  const std::string mode = answered ? turned_on.text(0) : "unknown";
  turned_on.reset();
  if (mode != "wal" && mode != "memory") {
    return base::fail(base::errc::unavailable,
                      "{} has journal mode '{}', 'wal' is needed: its file system gives processes "
                      "no memory in common; put the run on a disk of this machine",
                      name, mode);
  }
  return execute("PRAGMA synchronous = FULL");
}

database::~database() {
  for (statement* kept : {&begin_, &commit_, &mark_, &release_, &undo_})
    *kept = statement();
  // An open batch was never acknowledged: closing rolls it back. Statements of others may outlive
  // the connection.
  sqlite3_close_v2(handle_);
}

base::expected<statement> database::prepare(std::string_view sql) {
  sqlite3_stmt* raw = nullptr;
  const int code = sqlite3_prepare_v3(handle_, sql.data(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &raw, nullptr);
  if (code != SQLITE_OK) return sql_fail(handle_, code, fmt::format("run.db: {}", sql));
  return statement(raw);
}

base::status database::execute(const char* sql) {
  const int code = sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return sql_fail(handle_, code, "run.db");
  return {};
}

base::status database::enter(std::int64_t rows) {
  if (!broken_.empty()) return base::fail(base::errc::io, "{}", broken_);
  if (!writable_) {
    return base::fail(base::errc::conflict, "run.db was opened for reading; only control writes");
  }
  if (in_operation_) return base::fail(base::errc::internal, "a write inside another write");
  // A read since the last write may have failed so badly that SQLite gave the batch up.
  QUERN_CHECK(still_open(nullptr));
  if (pending_rows_ > 0 && pending_rows_ + rows > batch_rows_) QUERN_CHECK(commit());
  if (!in_batch_) {
    QUERN_CHECK(had(begin_.run()));
    in_batch_ = true;
  }
  if (rows > 1) QUERN_CHECK(mark_.run());
  in_operation_ = true;
  return {};
}

base::status database::leave(std::int64_t rows, const base::error* failed) {
  in_operation_ = false;
  QUERN_CHECK(still_open(failed));
  base::status closed;
  if (rows > 1) {
    if (failed != nullptr) closed = undo_.run();
    if (closed) closed = release_.run();
  }
  if (!closed) {
    broken_ = closed.error().message;
    return closed;
  }
  if (failed == nullptr) pending_rows_ += rows;
  return pending_rows_ >= batch_rows_ ? commit() : base::status();
}

base::status database::still_open(const base::error* failed) {
  if (!in_batch_ || sqlite3_get_autocommit(handle_) == 0) return {};
  // SQLite rolls a whole transaction back on its own after some errors (a full disk, I/O, memory).
  // Without one, every later write would be durable by itself, beside rows that are gone.
  broken_ =
      fmt::format("SQLite gave up the open batch ({}); nothing more is written: end and recover",
                  failed != nullptr ? failed->message : "after a read");
  return base::fail(base::errc::io, "{}", broken_);
}

base::status database::commit() {
  if (!broken_.empty()) return base::fail(base::errc::io, "{}", broken_);
  if (!in_batch_) return {};
  if (auto done = commit_.run(); !done) {
    // Rows that callers believe written are gone or half known: going on would break the law.
    broken_ = fmt::format("a commit failed ({}); nothing more is written: end and recover",
                          done.error().message);
    sqlite3_exec(handle_, "ROLLBACK", nullptr, nullptr, nullptr);
    done.error().message = broken_;
    return done;
  }
  in_batch_ = false;
  pending_rows_ = 0;
  ++commits_;
  return {};
}

std::int64_t database::rows_written() const {
  return sqlite3_total_changes64(handle_);
}

std::int64_t database::last_row_id() const {
  return sqlite3_last_insert_rowid(handle_);
}

std::int64_t database::bytes_cached() const {
  int now = 0, unused = 0;
  sqlite3_db_status(handle_, SQLITE_DBSTATUS_CACHE_USED, &now, &unused, 0);
  return now;
}

std::int64_t database::changes() const {
  return sqlite3_changes64(handle_);
}

base::nanoseconds_t database::now_ns() const {
  return time_ != nullptr ? time_->now_ns() : base::unix_time_ns();
}

base::status database::fold() {
  QUERN_CHECK(commit());
  // The log may as well stay: nobody waits long for that.
  struct in_short {
    busy_wait& wait;
    busy_wait before = std::exchange(wait, busy_wait(short_patience));
    ~in_short() { wait = before; }
  } const now{busy_};
  const auto in_the_way = [] {
    return base::fail(base::errc::conflict,
                      "another process has run.db open, so its log stays in run.db-wal: copy "
                      "run.db-wal with run.db");
  };
  {
    QUERN_TRY(statement checkpoint, prepare("PRAGMA wal_checkpoint(TRUNCATE)"));
    QUERN_TRY(const bool row, checkpoint.next());
    if (row && checkpoint.integer(0) != 0) return in_the_way();
  }
  // Without a log the file can be read from a read-only place, too. A reader that is idle is in the
  // way of this alone.
  auto ended = execute("PRAGMA journal_mode = DELETE");
  if (!ended && ended.error().code == base::errc::conflict) return in_the_way();
  return ended;
}

base::status database::quick_check() {
  const auto damaged = [&](std::string_view complaint) {
    return base::fail(base::errc::corrupt,
                      "{} is damaged ({}): put it back from a copy of the run (with run.db-wal, "
                      "where that is there), or start a new run from one of its checkpoints, with "
                      "policy.model=RUN/checkpoints/vN/model",
                      path_.empty() ? "run.db" : path_.string(), complaint);
  };
  const auto found = [&]() -> base::expected<std::string> {
    QUERN_TRY(statement check, prepare("PRAGMA quick_check(1)"));
    QUERN_TRY(const bool row, check.next());
    return row ? check.text(0) : std::string("it gives no answer");
  }();
  if (!found && found.error().code != base::errc::corrupt)
    return tl::make_unexpected(found.error());
  if (!found) return damaged(found.error().message);
  if (*found == "ok") return {};
  // "*** in database main ***", then the complaint.
  std::string complaint = *found;
  std::replace(complaint.begin(), complaint.end(), '\n', ' ');
  return damaged(complaint);
}

}  // namespace quern::storage
