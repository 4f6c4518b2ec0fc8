// Turns the folder of a run that has ended into what a build of schema 1 would have left: tables,
// triggers, configuration, answers of the closing comparison and lines of metrics with their
// earlier names.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/file.hpp"
#include "storage/database.hpp"
#include "support/test.hpp"

namespace quern::test {

inline std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
  return text;
}

/// Of a file that is there.
inline void rewrite(const std::filesystem::path& file,
                    const std::vector<std::pair<std::string, std::string>>& words) {
  if (!std::filesystem::exists(file)) return;
  auto text = base::read_file(file);
  REQUIRE(text);
  for (const auto& [what, with] : words)
    *text = replaced(std::move(*text), what, with);
  REQUIRE(base::write_file_atomic(file, *text));
}

/// The triggers that schema 1 had under its own names, from its golden schema.
inline std::string triggers_of_schema1() {
  const auto golden = base::read_file(source_dir() / "tests/golden/storage/schema1.sql");
  REQUIRE(golden);
  std::string found;
  for (std::size_t at = 0; (at = golden->find("CREATE TRIGGER", at)) != std::string::npos;) {
    const std::size_t end = golden->find("\n\n", at);
    const std::string one = golden->substr(at, end - at);
    if (one.find("epoch") != std::string::npos) found += one;
    at = end;
  }
  return found;
}

inline void make_schema1(const std::filesystem::path& run) {
  {
    auto db = storage::database::open(run / "run.db", storage::database::access::write);
    REQUIRE(db);
    std::string sql = "PRAGMA foreign_keys = OFF; BEGIN; ";
    for (const char* trigger : {"samples_are_born", "samples_step", "incarnations_follow",
                                "incarnations_close", "incarnations_stay"})
      sql += std::string("DROP TRIGGER ") + trigger + "; ";
    sql += "ALTER TABLE incarnations RENAME TO epochs; ";
    for (const char* table : {"groups", "samples", "events", "verdicts", "variants", "checkpoints"})
      sql += std::string("ALTER TABLE ") + table + " RENAME COLUMN incarnation TO epoch; ";
    sql += triggers_of_schema1() + " PRAGMA user_version = 1; COMMIT";
    const auto turned = (*db)->execute(sql.c_str());
    REQUIRE_MESSAGE(turned, turned.error().message);
    REQUIRE((*db)->fold());
  }
  for (const char* name : {"config.yaml", "meta.json"})
    rewrite(run / name, {{"quern_config: 2", "quern_config: 1"}, {"evaluation_set", "panel"}});
  rewrite(run / "metrics.jsonl",
          {{"\"incarnation\":", "\"epoch\":"}, {"\"seed_variants\":", "\"scouts\":"}});
  rewrite(run / "evaluation_set.json", {{"\"quern_evaluation_set\"", "\"quern_panel\""}});
  if (std::filesystem::exists(run / "evaluation_set.json"))
    std::filesystem::rename(run / "evaluation_set.json", run / "panel.json");
}

}  // namespace quern::test
