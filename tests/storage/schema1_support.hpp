// A ledger of schema 1, as a build of that schema left it when it was killed: two incarnations,
// samples in flight, checkpoints, variants (tests/golden/storage/run_of_schema1.sql).
#pragma once

#include <filesystem>
#include <string>

#include <sqlite3.h>

#include "base/file.hpp"
#include "ledger_support.hpp"

namespace quern::test {

/// Makes the file. `open_log`: the rows are in run.db-wal, as a killed process leaves them.
inline void write_schema1_run(const std::filesystem::path& file, bool open_log = false) {
  const std::string rows =
      must(base::read_file(source_dir() / "tests/golden/storage/run_of_schema1.sql"));
  const std::filesystem::path made = file.string() + ".made";
  sqlite3* db = nullptr;
  REQUIRE(sqlite3_open(made.c_str(), &db) == SQLITE_OK);
  const auto run = [&](const std::string& sql) {
    REQUIRE_MESSAGE(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK,
                    sqlite3_errmsg(db));
  };
  run(open_log ? "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0" : "PRAGMA page_size");
  run(rows);
  namespace fs = std::filesystem;
  fs::copy_file(made, file, fs::copy_options::overwrite_existing);
  if (open_log)
    fs::copy_file(made.string() + "-wal", file.string() + "-wal",
                  fs::copy_options::overwrite_existing);
  sqlite3_close(db);
  fs::remove(made);
}

/// Every row of every table, by the names of the first schema or of the present one. As control
/// opens the file: what a death has left is played back.
inline std::string rows_of_schema(const std::filesystem::path& file, bool first_schema) {
  const std::string one = first_schema ? "epoch" : "incarnation";
  sqlite3* db = nullptr;
  REQUIRE(sqlite3_open_v2(file.c_str(), &db, SQLITE_OPEN_READWRITE, nullptr) == SQLITE_OK);
  std::string all;
  for (const std::string& question :
       {"SELECT id, from_version, reason, t_ns, opening FROM " + one + "s ORDER BY id",
        "SELECT id, seq, task, exemplars, prompt_hash, template_hash, " + one +
            " FROM groups ORDER BY id",
        "SELECT id, grp, k, state, " + one +
            ", v_min, v_max, segments, tokens_hash, source_hash, verdict_id, reward, step, "
            "drop_reason, t_ns FROM samples ORDER BY id",
        "SELECT seq, sample, old, new, " + one + ", t_ns FROM events ORDER BY seq",
        "SELECT id, sample, " + one +
            ", attempt, task, source_hash, protocol, device_class, env, speedup_e2, confirmed, "
            "json FROM verdicts ORDER BY id",
        "SELECT id, task, source_hash, device_class, protocol, verdict_id, speedup_e2, version, " +
            one + ", parents, sample, text_hash FROM variants ORDER BY id",
        "SELECT version, " + one + ", path, hash, t_ns FROM checkpoints ORDER BY version, " + one,
        std::string("SELECT old, new, kind FROM pairs ORDER BY old, new")}) {
    sqlite3_stmt* rows = nullptr;
    REQUIRE_MESSAGE(sqlite3_prepare_v2(db, question.c_str(), -1, &rows, nullptr) == SQLITE_OK,
                    sqlite3_errmsg(db));
    while (sqlite3_step(rows) == SQLITE_ROW) {
      for (int column = 0; column < sqlite3_column_count(rows); ++column) {
        const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(rows, column));
        all += text != nullptr ? text : "null";
        all += '|';
      }
      all += '\n';
    }
    sqlite3_finalize(rows);
    all += '\n';
  }
  sqlite3_close(db);
  return all;
}

/// PRAGMA user_version.
inline int schema_of(const std::filesystem::path& file) {
  sqlite3* db = nullptr;
  REQUIRE(sqlite3_open_v2(file.c_str(), &db, SQLITE_OPEN_READWRITE, nullptr) == SQLITE_OK);
  sqlite3_stmt* row = nullptr;
  REQUIRE_MESSAGE(sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &row, nullptr) == SQLITE_OK,
                  sqlite3_errmsg(db));
  REQUIRE(sqlite3_step(row) == SQLITE_ROW);
  const int version = sqlite3_column_int(row, 0);
  sqlite3_finalize(row);
  sqlite3_close(db);
  return version;
}

}  // namespace quern::test
