// A prepared SQLite statement: bind, run, read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/hash.hpp"
#include "base/status.hpp"

struct sqlite3_stmt;

namespace quern::storage {

/// A prepared statement. Bind 1-based, run, read columns 0-based; `reset` frees the cursor. Calls
/// in the wrong order are errors of `run` or `next`, which carry SQLite's text. Not thread-safe.
class statement {
 public:
  statement() = default;
  statement(statement&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)),
        bind_code_(std::exchange(other.bind_code_, 0)) {}
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
  statement& remember(int code);
  sqlite3_stmt* handle_ = nullptr;
  int bind_code_ = 0;  ///< of the first bind that failed
};

}  // namespace quern::storage
