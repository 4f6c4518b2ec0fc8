// run.db: one SQLite connection, its batches and its statements. Nothing outside storage/ sees SQL;
// ledger and archive share one of these, so what they write in a batch becomes durable together.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/status.hpp"
#include "storage/busy_wait.hpp"
#include "storage/statement.hpp"

struct sqlite3;

namespace quern::storage {

/// Readers and the writer meet only while the log is folded, which takes milliseconds.
inline constexpr busy_limits short_patience{5'000'000'000, 5'000'000'000};

/// Rows of one commit: 64 keep a sync of 1-5 ms (a usual disk) below 80 us a row, and lose little
/// work when the machine dies.
inline constexpr int default_batch_rows = 64;

/// Pages of run.db that one connection keeps for itself. A sample adds 4.6 kB, so a larger
/// bound is memory that grows for as long as control lives. Nothing is gained by it: writes
/// go to the ends of tables, and what is read again is in the machine's page cache. The figures of
/// `bench_ledger` are the same with 64 MiB.
inline constexpr std::int64_t page_cache_bytes = std::int64_t{2} << 20;

/// One connection; not thread-safe. Writers: exactly one, held by the control process under the
/// run's lock; any number of readers open their own.
class database {
 public:
  enum class access { write, read };

  /// Opens run.db, creating it and its schema when `write` finds nothing. WAL, synchronous FULL,
  /// foreign keys on. A file system on which WAL cannot be turned on is `unavailable`. A schema
  /// that this build does not know is `version`, a file that is not ours is `corrupt`, both with
  /// what was found. Schema 1 is read by the present names and not written: `version` (`migrate`).
  /// While another process holds the file a writer waits as `patience` says, with a line in the log
  /// that names the process; after that the error is `conflict`, and a later write tries again.
  static base::expected<std::unique_ptr<database>> open(const std::filesystem::path& path,
                                                        access how,
                                                        int batch_rows = default_batch_rows,
                                                        busy_limits patience = {});

  /// Where a process was killed while it changed the journal's mode or migrated, run.db-journal has
  /// what run.db was before; SQLite takes that back when run.db is opened for writing, and no
  /// reader can read it until then. For the process that holds the run's lock, before it reads
  /// run.db. Nothing is changed where there is no such file. Errors: `io`, `corrupt`, `conflict`.
  static base::status take_back_interrupted(const std::filesystem::path& path);

  /// Whether run.db is a ledger of a schema that this build reads, and whole as of `quick_check`.
  /// Changes no file and makes none, which a reader of a run that was killed does: SQLite's
  /// run.db-shm and run.db-wal. Takes no lock: for a run that nobody writes; where a writer begins
  /// meanwhile, whole data may be told to be damaged. Errors: `version`, `corrupt`, `io`;
  /// `conflict` as of take_back_interrupted.
  static base::status check_untouched(const std::filesystem::path& path);

  /// Brings run.db of schema 1 to the present schema. First a copy of it is kept as
  /// run.db.schema1; then one transaction renames tables and columns. A process that ends at any
  /// point leaves schema 1 or the present one, with every row. For the process that holds the run's
  /// lock, before it opens run.db. Result: the file with the copy; none: there was nothing to do.
  /// Errors, after which run.db is as it was: `version` and `corrupt` as of `open`; `corrupt`: the
  /// tables are not those of schema 1; `io`: no room, or it may not be written; `conflict`: another
  /// process holds it, or run.db.schema1 is there and no file.
  static base::expected<std::optional<std::filesystem::path>> migrate(
      const std::filesystem::path& path);

  /// The same schema in memory, for simulations and tests. `time` (not owned, may be null: wall
  /// clock) stamps the rows.
  static base::expected<std::unique_ptr<database>> in_memory(const base::clock* time = nullptr,
                                                             int batch_rows = default_batch_rows);

  ~database();
  database(const database&) = delete;
  database& operator=(const database&) = delete;

  base::expected<statement> prepare(std::string_view sql);
  base::status execute(const char* sql);

  /// Runs `body` (returning a status or an expected) inside the open batch, opening one when there
  /// is none, all or nothing. `rows`: how many it writes (1: in one statement, which is atomic by
  /// itself); a batch that would pass its limit is committed first, one that is full is committed
  /// after. An operation larger than a batch is one commit all the same. When SQLite itself rolled
  /// the batch back because of an error in `body`, that is final, as a failed commit is.
  template <class F>
  auto atomically(std::int64_t rows, F body) -> decltype(body()) {
    QUERN_CHECK(enter(rows));
    auto result = body();
    if (auto left = leave(rows, result.has_value() ? nullptr : &result.error()); !left) {
      return tl::make_unexpected(std::move(left).error());
    }
    return result;
  }

  /// Makes everything written so far durable. A failure is final: the batch is gone and every later
  /// write fails with the same text.
  base::status commit();
  /// Opened for writing. A write on a reader's connection is `conflict`.
  [[nodiscard]] bool writable() const { return writable_; }
  /// PRAGMA user_version of the file when it was opened: the present schema, or `earlier_schema` on
  /// a reader's connection.
  [[nodiscard]] std::int64_t schema() const { return schema_; }
  [[nodiscard]] bool durable() const { return pending_rows_ == 0; }
  [[nodiscard]] std::int64_t commits() const { return commits_; }
  /// Physical rows written by this connection, events included.
  [[nodiscard]] std::int64_t rows_written() const;
  [[nodiscard]] std::int64_t last_row_id() const;
  /// Rows that the last statement changed, those of triggers not counted.
  [[nodiscard]] std::int64_t changes() const;

  /// Memory that this connection's pages take: about `page_cache_bytes` at most, but for the pages
  /// that one statement holds. A ledger in memory is all of it.
  [[nodiscard]] std::int64_t bytes_cached() const;

  /// Wall time for records.
  [[nodiscard]] base::nanoseconds_t now_ns() const;

  /// Commits and folds the write-ahead log into run.db, which then is one file that can be copied,
  /// or read from a read-only place. For the end of a run: no cursor may be open, and the next
  /// writer turns the log on again. `conflict` when another connection is in the way, be it idle;
  /// nothing is lost then, but run.db-wal must be copied with run.db.
  base::status fold();

  /// SQLite's own check of the structure of pages and of what the schema demands of rows. A flipped
  /// byte inside a value that still fits is not seen (README.md, "Recovery"). `corrupt` has its
  /// first complaint and what to do. Reads the whole file: about a second for a gigabyte.
  base::status quick_check();

 private:
  database() = default;
  static int on_busy(void* self, int attempt);
  /// A result behind which the database may have been held: says that it is free again, or who
  /// held it to the end.
  base::status had(base::status result);
  static base::expected<std::unique_ptr<database>> open_file(const char* name, int flags,
                                                             const char* vfs = nullptr);
  static base::expected<std::unique_ptr<database>> open_untouched(
      const std::filesystem::path& path);
  base::status copy_empty_schema();
  base::status set_up(access how, const std::string& name);
  base::status enter(std::int64_t rows);
  /// `failed`: why the operation is to be undone; null: it is kept.
  base::status leave(std::int64_t rows, const base::error* failed);
  /// Error, for good: there was a batch, and SQLite has rolled it back on its own.
  base::status still_open(const base::error* failed);
  base::status begin_log(const std::string& name);
  /// One transaction: all of it or nothing.
  base::status rename_from_schema1();

  sqlite3* handle_ = nullptr;
  std::filesystem::path path_;
  base::steady_clock waiting_clock_;
  busy_wait busy_{short_patience};
  const base::clock* time_ = nullptr;
  int batch_rows_ = default_batch_rows;
  std::int64_t schema_ = 0;
  std::int64_t pending_rows_ = 0;
  std::int64_t commits_ = 0;
  bool writable_ = false;
  bool in_batch_ = false;
  bool in_operation_ = false;
  std::string broken_;  ///< why no further write is possible; empty: all is well
  statement begin_, commit_, mark_, release_, undo_;
};

}  // namespace quern::storage
