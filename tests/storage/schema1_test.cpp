// Runs of schema 1: read as they are, and brought to the present schema with every row and a copy.
#include <algorithm>

#include <sys/stat.h>

#include "fault_vfs.hpp"
#include "schema1_support.hpp"
#include "storage/archive.hpp"
#include "storage/sample_reader.hpp"
#include "storage/schema.hpp"

namespace quern::test {
namespace {

using namespace quern::storage;
namespace fs = std::filesystem;

struct schema1_run {
  explicit schema1_run(bool open_log = false) { write_schema1_run(file, open_log); }
  base::temp_folder folder = must(base::temp_folder::make("schema1"));
  fs::path file = folder.path() / "run.db";
  fs::path copy = folder.path() / "run.db.schema1";
};

std::string without_quotes(std::string text) {
  text.erase(std::remove(text.begin(), text.end(), '"'), text.end());
  return text;
}

/// What a reader is told of a ledger, whichever schema its file has.
std::string told_of(const fs::path& file) {
  const auto db = must(database::open(file, database::access::read));
  const auto book = must(ledger::open(*db));
  std::string all;
  const ledger_position at = must(book->position());
  all += fmt::format("at {} {} {} {}\n", at.incarnation, at.version,
                     at.checkpoint ? at.checkpoint->version : -1, at.next_seq);
  for (const checkpoint_row& row : must(book->checkpoints()))
    all += fmt::format("checkpoint {} {} {}\n", row.version, row.incarnation, row.path);
  for (const group_row& group : must(book->live_groups()))
    for (const sample_row& sample : group.samples)
      all += fmt::format("live {} {} {} {}\n", group.incarnation, sample.id, sample.incarnation,
                         to_string(sample.state));
  for (std::int64_t sample = 1; sample <= must(book->counts()).issued_ever; ++sample) {
    for (const event_row& event : must(book->events_of(sample)))
      all += fmt::format("event {} {} {}\n", event.seq, event.incarnation, to_string(event.to));
    for (const stored_verdict& verdict : must(book->verdicts_of(sample)))
      all += fmt::format("verdict {} {} {}\n", verdict.id, verdict.row.incarnation,
                         verdict.row.counts);
  }
  const base::temp_folder blobs = must(base::temp_folder::make("blobs"));
  const blob_store none(blobs.path());
  const auto variants = must(archive::open(*db, none));
  for (const variant_key& key : variants->keys())
    if (const auto best = must(variants->best(key, INT64_MAX, variants_of::everybody)))
      all += fmt::format("best {} {} {}\n", key.task, best->id, best->incarnation);
  return all;
}

TEST_CASE("a run of schema 1 is read as it is, and nothing is written") {
  for (const bool open_log : {false, true}) {
    const schema1_run run(open_log);
    const std::string before = must(base::read_file(run.file));
    const std::string told = told_of(run.file);
    CHECK(told.find("at 2 3 3 ") == 0);
    CHECK(told.find("best ") != std::string::npos);
    CHECK(must(base::read_file(run.file)) == before);
    CHECK(schema_of(run.file) == 1);
    CHECK_FALSE(fs::exists(run.copy));
    // The control: the same is told once the run is of the present schema.
    must(database::migrate(run.file));
    CHECK(told_of(run.file) == told);
  }
}

TEST_CASE("pages of samples of schema 1 use the indices of the file") {
  const schema1_run run;
  const auto db = must(database::open(run.file, database::access::read));
  auto plan =
      must(db->prepare("EXPLAIN QUERY PLAN SELECT id, incarnation FROM samples WHERE grp = "
                       "3 ORDER BY k"));
  REQUIRE(must(plan.next()));
  CHECK(plan.text(3).find("samples_grp") != std::string::npos);
  CHECK_FALSE(must(plan.next()));
}

TEST_CASE("a run of schema 1 becomes one of the present schema with every row, and a copy stays") {
  for (const bool open_log : {false, true}) {
    const schema1_run run(open_log);
    const std::string rows = rows_of_schema(run.file, true);
    const auto kept = must(database::migrate(run.file));
    REQUIRE(kept);
    CHECK(*kept == run.copy);
    CHECK(schema_of(run.file) == schema_version);
    CHECK(rows_of_schema(run.file, false) == rows);
    CHECK(schema_of(run.copy) == earlier_schema);
    CHECK(rows_of_schema(run.copy, true) == rows);
    const auto db = must(database::open(run.file, database::access::write));
    // Each table, index and trigger is that of a ledger that is made anew.
    CHECK(without_quotes(must(dump_schema(*db))) ==
          must(base::read_file(source_dir() / "tests/golden/storage/schema.sql")));
    // It is a ledger: an incarnation is opened, triggers hold, and the history is whole.
    const auto book = must(ledger::open(*db));
    must(book->audit());
    CHECK(must(book->open_incarnation({"resume", 3, {}})).incarnation == 3);
    CHECK_FALSE(db->execute("UPDATE samples SET state = 'trained' WHERE state = 'issued'"));
    CHECK_FALSE(db->execute("DELETE FROM incarnations"));
    must(book->issue(group_of(must(book->position()).next_seq, 4)));
    must(book->commit());
    must(book->audit());
    CHECK(must(book->counts()).law_holds());
    // Again there is nothing to do.
    CHECK_FALSE(must(database::migrate(run.file)));
    CHECK(rows_of_schema(run.copy, true) == rows);
  }
}

TEST_CASE("the tables of schema 1 are the golden ones") {
  const schema1_run run;
  const auto db = must(database::open(run.file, database::access::read));
  CHECK(must(dump_schema(*db)) ==
        must(base::read_file(source_dir() / "tests/golden/storage/schema1.sql")));
}

TEST_CASE("whoever writes a run of schema 1 is told what brings it to the present one") {
  const schema1_run run;
  const auto opened = database::open(run.file, database::access::write);
  REQUIRE_FALSE(opened);
  CHECK(opened.error().code == base::errc::version);
  CHECK(opened.error().message == run.file.string() +
                                      " has schema 1, this build writes schema 2: quern resume RUN "
                                      "brings it to that schema, and keeps a copy beside it");
  CHECK(schema_of(run.file) == 1);
}

TEST_CASE("what is no run of schema 1 is left as it is") {
  schema1_run run;
  const auto change = [&](const char* sql) {
    sqlite3* db = nullptr;
    REQUIRE(sqlite3_open(run.file.c_str(), &db) == SQLITE_OK);
    REQUIRE(sqlite3_exec(db, sql, nullptr, nullptr, nullptr) == SQLITE_OK);
    sqlite3_close(db);
  };
  const auto refusal = [&] {
    const std::string rows = rows_of_schema(run.file, true);
    const int schema = schema_of(run.file);
    const auto done = database::migrate(run.file);
    REQUIRE_FALSE(done);
    CHECK(rows_of_schema(run.file, true) == rows);
    CHECK(schema_of(run.file) == schema);
    return done.error();
  };
  SUBCASE("a later schema") {
    change("PRAGMA user_version = 3");
    const auto error = refusal();
    CHECK(error.code == base::errc::version);
    CHECK(error.message.find("has schema 3, this build writes schema 2 and reads schema 1, too") !=
          std::string::npos);
    CHECK_FALSE(fs::exists(run.copy));
  }
  SUBCASE("a table that somebody changed") {
    change("ALTER TABLE groups ADD COLUMN mine TEXT");
    const auto error = refusal();
    CHECK(error.code == base::errc::corrupt);
    CHECK(error.message.find("'groups' is not as schema 1 has it") != std::string::npos);
    CHECK(schema_of(run.file) == 1);
  }
  SUBCASE("another program's") {
    change("PRAGMA application_id = 7");
    CHECK(refusal().code == base::errc::corrupt);
  }
  SUBCASE("no file, and an empty one: control makes a ledger there") {
    CHECK_FALSE(must(database::migrate(run.folder.path() / "none.db")));
    must(base::write_file_atomic(run.folder.path() / "empty.db", ""));
    CHECK_FALSE(must(database::migrate(run.folder.path() / "empty.db")));
  }
  SUBCASE("an index and a view of a person stay") {
    change("CREATE INDEX mine ON samples(epoch); CREATE VIEW newest AS SELECT max(id) FROM epochs");
    must(database::migrate(run.file));
    change("SELECT * FROM newest; DROP INDEX mine");
  }
}

TEST_CASE("without room for the copy nothing is begun, and both numbers are told") {
  CHECK(check_room_of_copy("runs/a/run.db", 5000, std::nullopt));
  CHECK(check_room_of_copy("runs/a/run.db", 5000, 5000));
  const auto told = check_room_of_copy("runs/a/run.db", 5'000'000, 4'000'000);
  REQUIRE_FALSE(told);
  CHECK(told.error().code == base::errc::io);
  CHECK(told.error().message.find("runs/a/run.db has schema 1") == 0);
  CHECK(told.error().message.find("free for runs/a; make room and resume the run") !=
        std::string::npos);
}

TEST_CASE("what has the name of the copy and is no file is named, and nothing is changed") {
  const schema1_run run;
  const std::string before = must(base::read_file(run.file));
  for (const fs::path& name : {run.copy, fs::path(run.copy.string() + ".draft")}) {
    const auto refused = [&](const char* kind) {
      const auto there = fs::symlink_status(name).type();
      const auto done = database::migrate(run.file);
      REQUIRE_FALSE(done);
      CHECK(done.error().code == base::errc::conflict);
      CHECK(done.error().message == name.string() + " is " + kind + ", but the copy of " +
                                        run.file.string() +
                                        ", which has schema 1, needs this name: move it away and "
                                        "resume the run; nothing was changed");
      CHECK(fs::symlink_status(name).type() == there);
      CHECK(must(base::read_file(run.file)) == before);
      // Nothing is left beside it, either.
      CHECK(std::distance(fs::directory_iterator(run.folder.path()), {}) == 2);
      fs::remove(name);
    };
    fs::create_directory(name);
    refused("a folder");
    fs::create_symlink("somewhere", name);
    refused("a symbolic link");
    REQUIRE(::mkfifo(name.c_str(), 0600) == 0);
    refused("a pipe, a socket or a device");
  }
  // The control: a file of an earlier attempt is replaced.
  REQUIRE(base::write_file_atomic(run.copy, "half of it"));
  CHECK(must(database::migrate(run.file)) == run.copy);
  CHECK(schema_of(run.copy) == 1);
}

TEST_CASE("a disk that fails at any call leaves schema 1 or the present one, with every row") {
  std::string rows;
  {
    const schema1_run whole;
    rows = rows_of_schema(whole.file, true);
  }
  for (const disk_fault fault : {disk_fault::full, disk_fault::short_io_error}) {
    int refused = 0;
    for (std::int64_t call = 0;; ++call) {
      const schema1_run run(call % 2 == 1);
      bool fired = false;
      {
        fault_vfs disk;
        disk.fail_at(call, fault, true);
        const auto done = database::migrate(run.file);
        fired = disk.fired();
        if (!fired) REQUIRE(done);
        if (!done) ++refused;
      }
      const bool first = schema_of(run.file) == 1;
      CHECK(rows_of_schema(run.file, first) == rows);
      if (!first) CHECK(rows_of_schema(run.copy, true) == rows);
      // On a sound disk it is done, whatever was left.
      must(database::migrate(run.file));
      CHECK(schema_of(run.file) == schema_version);
      CHECK(rows_of_schema(run.file, false) == rows);
      CHECK(rows_of_schema(run.copy, true) == rows);
      // Both ways of keeping the log had a call that was not reached.
      if (!fired && call % 2 == 1) break;
    }
    CHECK(refused > 20);
  }
}

}  // namespace
}  // namespace quern::test
