// A process that brings a run to the present schema is killed before each of its calls that change
// a file: there is schema 1 or the present one, whole, and the next process finishes.
#include <sys/wait.h>
#include <unistd.h>

#include "fault_vfs.hpp"
#include "schema1_support.hpp"
#include "storage/schema.hpp"

namespace quern::test {
namespace {

using namespace quern::storage;
namespace fs = std::filesystem;

/// Whether the process was killed before it was done.
bool migrate_and_die(const fs::path& file, std::int64_t call) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    fault_vfs disk;
    disk.kill_at(call);
    ::_exit(database::migrate(file) ? 0 : 3);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  if (WIFSIGNALED(status)) return true;
  CHECK(WEXITSTATUS(status) == 0);
  return false;
}

TEST_CASE(
    "killed at any call, a run has schema 1 or the present one, and the next start finishes") {
  const base::temp_folder home = must(base::temp_folder::make("schema1"));
  std::string rows;
  for (const bool open_log : {false, true}) {
    int before = 0, after = 0, with_copy = 0;
    for (std::int64_t call = 0;; ++call) {
      const fs::path folder = home.path() / fmt::format("{}-{}", open_log, call);
      fs::create_directory(folder);
      const fs::path file = folder / "run.db", copy = folder / "run.db.schema1";
      write_schema1_run(file, open_log);
      if (rows.empty()) rows = rows_of_schema(file, true);
      const bool killed = migrate_and_die(file, call);
      // Whoever opens it sees a whole ledger.
      const int found = schema_of(file);
      CHECK(rows_of_schema(file, found == 1) == rows);
      if (found == 1) ++before;
      if (found == schema_version) {
        ++after;
        CHECK(rows_of_schema(copy, true) == rows);
      }
      if (found == 1 && fs::exists(copy)) ++with_copy;
      must(database::migrate(file));
      CHECK(schema_of(file) == schema_version);
      CHECK(rows_of_schema(file, false) == rows);
      CHECK(rows_of_schema(copy, true) == rows);
      CHECK_FALSE(fs::exists(copy.string() + ".draft"));
      fs::remove_all(folder);
      if (!killed) break;
    }
    // Deaths fell into the copy, between copy and renames, and behind the commit.
    CHECK(before > 10);
    CHECK(with_copy > 3);
    CHECK(after > 0);
  }
}

}  // namespace
}  // namespace quern::test
