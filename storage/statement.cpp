#include "storage/statement.hpp"

#include "storage/sql_error.hpp"

namespace quern::storage {

statement& statement::operator=(statement&& other) noexcept {
  if (this != &other) {
    sqlite3_finalize(handle_);
    handle_ = std::exchange(other.handle_, nullptr);
    bind_code_ = std::exchange(other.bind_code_, 0);
  }
  return *this;
}

statement::~statement() {
  sqlite3_finalize(handle_);
}

statement& statement::remember(int code) {
  if (code != SQLITE_OK && bind_code_ == 0) bind_code_ = code;
  return *this;
}

statement& statement::bind(int index, std::int64_t value) {
  return remember(sqlite3_bind_int64(handle_, index, value));
}

statement& statement::bind(int index, double value) {
  return remember(sqlite3_bind_double(handle_, index, value));
}

statement& statement::bind(int index, std::string_view value) {
  // A null pointer would bind NULL, not the empty text.
  const char* bytes = value.empty() ? "" : value.data();
  return remember(
      sqlite3_bind_text64(handle_, index, bytes, value.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
}

statement& statement::bind(int index, const base::hash128& value) {
  return bind(index, std::string_view(base::to_hex(value)));
}

statement& statement::bind_null(int index) {
  return remember(sqlite3_bind_null(handle_, index));
}

base::status statement::run() {
  QUERN_TRY(const bool row, next());
  reset();
  if (row) return base::fail(base::errc::internal, "a statement gave rows that nobody reads");
  return {};
}

base::expected<bool> statement::next() {
  if (handle_ == nullptr) return base::fail(base::errc::internal, "statement was never prepared");
  sqlite3* const db = sqlite3_db_handle(handle_);
  if (const int code = std::exchange(bind_code_, 0); code != 0) {
    return sql_fail(nullptr, code, "run.db: binding a value");
  }
  const int code = sqlite3_step(handle_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) {
    reset();
    return false;
  }
  auto failed = sql_fail(db, code, "run.db");
  reset();
  return failed;
}

void statement::reset() {
  sqlite3_reset(handle_);
}

bool statement::is_null(int column) const {
  return sqlite3_column_type(handle_, column) == SQLITE_NULL;
}

std::int64_t statement::integer(int column) const {
  return sqlite3_column_int64(handle_, column);
}

double statement::real(int column) const {
  return sqlite3_column_double(handle_, column);
}

std::string statement::text(int column) const {
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(handle_, column));
  if (bytes == nullptr) return {};
  return {bytes, static_cast<std::size_t>(sqlite3_column_bytes(handle_, column))};
}

std::optional<std::int64_t> statement::maybe_integer(int column) const {
  if (is_null(column)) return std::nullopt;
  return integer(column);
}

std::optional<double> statement::maybe_real(int column) const {
  if (is_null(column)) return std::nullopt;
  return real(column);
}

base::expected<std::optional<base::hash128>> statement::maybe_hash(int column) const {
  if (is_null(column)) return std::optional<base::hash128>();
  const auto hash = base::parse_hash(text(column));
  if (!hash) return base::fail(base::errc::corrupt, "run.db: '{}' is not a hash", text(column));
  return std::optional(*hash);
}

}  // namespace quern::storage
