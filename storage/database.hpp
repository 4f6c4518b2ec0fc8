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
#include "base/hash.hpp"
#include "base/status.hpp"

struct sqlite3;
struct sqlite3_stmt;

namespace quern::storage {

/// Rows of one commit: 64 keep a sync of 1-5 ms (a usual disk) below 80 us a row, and lose little
/// work when the machine dies.
inline constexpr int default_batch_rows = 64;

/// A prepared statement. Bind 1-based, run, read columns 0-based; `reset` frees the cursor. Calls
/// in the wrong order are errors of `run` or `next`, which carry SQLite's text. Not thread-safe.
class statement {
 public:
  statement() = default;
  statement(statement&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  statement& operator=(statement&& other) noexcept;
  ~statement();

  statement& bind(int index, std::int64_t value);
  statement& bind(int index, double value);
  statement& bind(int index, std::string_view value);
  statement& bind(int index, const base::hash128& value);
  statement& bind_null(int index);
  template <class T>
  statement& bind(int index, const std::optional<T>& value) {
    return value ? bind(index, *value) : bind_null(index);
  }

  /// Runs a statement that returns no rows, and resets it.
  base::status run();
  /// The next row: true, or false at the end (and resets).
  base::expected<bool> next();
  void reset();

  [[nodiscard]] bool is_null(int column) const;
  [[nodiscard]] std::int64_t integer(int column) const;
  [[nodiscard]] double real(int column) const;
  [[nodiscard]] std::string text(int column) const;
  [[nodiscard]] std::optional<std::int64_t> maybe_integer(int column) const;
  [[nodiscard]] std::optional<double> maybe_real(int column) const;
  /// Null, or 32 hexadecimal digits; anything else is `corrupt`.
  [[nodiscard]] base::expected<std::optional<base::hash128>> maybe_hash(int column) const;

 private:
  friend class database;
  explicit statement(sqlite3_stmt* handle) : handle_(handle) {}
  sqlite3_stmt* handle_ = nullptr;
};

/// One connection; not thread-safe. Writers: exactly one, held by the control process under the
/// run's lock; any number of readers open their own.
class database {
 public:
  enum class access { write, read };

  /// Opens run.db, creating it and its schema when `write` finds nothing. WAL, synchronous FULL,
  /// foreign keys on. A schema that this build does not know is `version`, a file that is not ours
  /// is `corrupt`, both with what was found.
  static base::expected<std::unique_ptr<database>> open(const std::filesystem::path& path,
                                                        access how,
                                                        int batch_rows = default_batch_rows);

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
  /// is none, all or nothing. `rows`: how many it writes; a batch that would pass its limit is
  /// committed first, one that is full is committed after. An operation larger than a batch is one
  /// commit all the same.
  template <class F>
  auto atomically(std::int64_t rows, F body) -> decltype(body()) {
    QUERN_CHECK(enter(rows));
    auto result = body();
    if (auto left = leave(rows, result.has_value()); !left && result.has_value()) {
      return tl::make_unexpected(std::move(left).error());
    }
    return result;
  }

  /// Makes everything written so far durable. A failure is final: the batch is gone and every later
  /// write fails with the same text.
  base::status commit();
  [[nodiscard]] bool durable() const { return pending_rows_ == 0; }
  [[nodiscard]] std::int64_t commits() const { return commits_; }
  /// Physical rows written by this connection, events included.
  [[nodiscard]] std::int64_t rows_written() const;
  [[nodiscard]] std::int64_t last_row_id() const;

  /// Wall time for records.
  [[nodiscard]] base::nanoseconds_t now_ns() const;

  /// Commits, folds the write-ahead log into run.db and leaves one file that can be copied, or read
  /// from a read-only place. The connection is closed afterwards, whatever the result.
  base::status fold_and_close();

 private:
  database() = default;
  static base::expected<std::unique_ptr<database>> open_file(const char* name, int flags);
  base::status set_up(access how, const std::string& name);
  base::status enter(std::int64_t rows);
  base::status leave(std::int64_t rows, bool keep);

  sqlite3* handle_ = nullptr;
  const base::clock* time_ = nullptr;
  int batch_rows_ = default_batch_rows;
  std::int64_t pending_rows_ = 0;
  std::int64_t commits_ = 0;
  bool in_batch_ = false;
  bool in_operation_ = false;
  std::string broken_;  ///< why no further write is possible; empty: all is well
  statement begin_, commit_, mark_, release_, undo_;
};

}  // namespace quern::storage
