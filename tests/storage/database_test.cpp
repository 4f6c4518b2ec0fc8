// run.db as a file: batches, readers, folding, versions, the golden schema.
#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/file.hpp"
#include "ledger_support.hpp"
#include "storage/schema.hpp"

namespace quern::test {
namespace {

using namespace quern::storage;
namespace fs = std::filesystem;

struct file_ledger {
  base::temp_folder folder = must(base::temp_folder::make("ledger"));
  fs::path path = folder.path() / "run.db";
  std::unique_ptr<database> db = must(database::open(path, database::access::write));
  std::unique_ptr<ledger> book = must(ledger::open(*db));
};

TEST_CASE("a batch becomes visible to readers, and durable, at its commit") {
  file_ledger run;
  must(run.book->open_incarnation({"start", 0, {}}));
  auto reading = must(database::open(run.path, database::access::read));
  auto seen = must(ledger::open(*reading));
  must(run.book->issue(group_of(0, 8)));
  CHECK_FALSE(run.book->durable());
  CHECK(must(run.book->counts()).issued_ever == 8);
  CHECK(must(seen->counts()).issued_ever == 0);
  must(run.book->commit());
  CHECK(run.book->durable());
  CHECK(must(seen->counts()).issued_ever == 8);
  CHECK(must(seen->position()).next_seq == 1);
  CHECK(seen->issue(group_of(1, 1)).error().code == base::errc::conflict);
}

TEST_CASE("a batch commits itself when it is full, never with more than its rows") {
  file_ledger run;
  must(run.book->open_incarnation({"start", 0, {}}));
  const auto before = run.db->commits();
  must(run.book->issue(group_of(0, 63)));  // 64 rows with the group
  CHECK(run.book->durable());
  CHECK(run.db->commits() == before + 1);
  must(run.book->issue(group_of(1, 40)));
  CHECK_FALSE(run.book->durable());
  must(run.book->issue(group_of(2, 40)));  // would pass 64: the first one goes before
  CHECK(run.db->commits() == before + 2);
  CHECK_FALSE(run.book->durable());
  must(run.book->issue(group_of(3, 500)));  // larger than a batch, still one commit
  CHECK(run.db->commits() == before + 4);
  CHECK(run.book->durable());
}

TEST_CASE("an operation that fails leaves the rest of its batch alone") {
  file_ledger run;
  must(run.book->open_incarnation({"start", 0, {}}));
  must(run.book->issue(group_of(0, 4)));
  const std::vector<std::int64_t> bad = {1, 2, 77};
  CHECK_FALSE(run.book->drop(bad, "stale").has_value());
  must(run.book->generated(tokens_of(3, 1, 0, 0)));
  must(run.book->commit());
  CHECK(must(run.book->sample(1)).state == sample_state::issued);
  CHECK(must(run.book->sample(3)).state == sample_state::generated);
}

TEST_CASE("what was not committed is gone after the process; what was, is there") {
  file_ledger run;
  must(run.book->open_incarnation({"start", 0, {}}));
  must(run.book->issue(group_of(0, 4)));
  must(run.book->commit());
  must(run.book->generated(tokens_of(1, 1, 0, 0)));
  run.book.reset();
  run.db.reset();
  auto db = must(database::open(run.path, database::access::write));
  auto book = must(ledger::open(*db));
  CHECK(must(book->sample(1)).state == sample_state::issued);
  CHECK(must(book->position()).next_seq == 1);
  must(book->audit());
}

TEST_CASE("what a connection keeps of run.db does not grow with what it writes or reads") {
  file_ledger run;
  must(run.book->open_incarnation({"start", 0, {}}));
  constexpr int samples = 2000;
  must(run.book->issue(group_of(0, samples)));
  for (std::int64_t id = 1; id <= samples; ++id) {
    must(run.book->generated(tokens_of(id, 1, 0, 0)));
    verdict_row verdict = verdict_of(id, 1, 1);
    verdict.json = fmt::format(R"({{"detail":"{}"}})", std::string(2500, 'x'));
    must(run.book->evaluated(verdict));
  }
  must(run.book->commit());
  // SQLite adds a twentieth of its own to each page.
  constexpr std::int64_t bound = page_cache_bytes + page_cache_bytes / 16;
  CHECK(run.db->bytes_cached() > page_cache_bytes / 2);
  CHECK(run.db->bytes_cached() < bound);
  must(run.book->audit());
  CHECK(run.db->bytes_cached() < bound);
  must(run.db->fold());
  REQUIRE(static_cast<std::int64_t>(fs::file_size(run.path)) > 3 * page_cache_bytes);
  auto reading = must(database::open(run.path, database::access::read));
  must(reading->quick_check());
  CHECK(reading->bytes_cached() > page_cache_bytes / 2);
  CHECK(reading->bytes_cached() < bound);
}

TEST_CASE("there is one writer") {
  file_ledger run;
  must(run.book->open_incarnation({"start", 0, {}}));
  must(run.book->issue(group_of(0, 4)));
  auto other = must(database::open(run.path, database::access::write));
  must(other->execute("PRAGMA busy_timeout = 1"));
  auto book = must(ledger::open(*other));
  const auto refused = book->issue(group_of(0, 1));
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == base::errc::conflict);
  CHECK(refused.error().message.find("only one may write") != std::string::npos);
}

TEST_CASE("a commit that fails ends all writing") {
  file_ledger run;
  must(run.book->open_incarnation({"start", 0, {}}));
  must(run.book->issue(group_of(0, 1)));
  // A violated deferred key is how a commit can be made to fail on purpose.
  must(run.db->execute("INSERT INTO incarnations VALUES (2, 0, 'x', 0, 1)"));
  const auto failed = run.book->commit();
  REQUIRE_FALSE(failed.has_value());
  CHECK(failed.error().message.find("end and recover") != std::string::npos);
  CHECK(run.book->issue(group_of(1, 1)).error().message == failed.error().message);
  CHECK_FALSE(run.book->commit().has_value());
  run.book.reset();
  run.db.reset();
  auto db = must(database::open(run.path, database::access::write));
  auto book = must(ledger::open(*db));
  CHECK(must(book->counts()).issued_ever == 0);
  must(book->audit());
}

TEST_CASE("a folded ledger is one file that can be copied and read from a read-only place") {
  file_ledger run;
  must(run.book->open_incarnation({"start", 0, {}}));
  must(run.book->issue(group_of(0, 4)));
  CHECK(fs::exists(run.path.string() + "-wal"));
  must(run.db->fold());
  CHECK_FALSE(fs::exists(run.path.string() + "-wal"));
  const fs::path place = run.folder.path() / "copy";
  fs::create_directory(place);
  fs::copy_file(run.path, place / "run.db");
  fs::permissions(place, fs::perms::owner_read | fs::perms::owner_exec);
  auto copy = must(database::open(place / "run.db", database::access::read));
  auto book = must(ledger::open(*copy));
  CHECK(must(book->counts()).issued_ever == 4);
  fs::permissions(place, fs::perms::owner_all);
  // The run itself goes on.
  must(run.db->execute("PRAGMA journal_mode = WAL"));
  must(run.book->issue(group_of(1, 4)));
  must(run.book->commit());
  CHECK(must(run.book->counts()).issued_ever == 8);
}

TEST_CASE("what a process was killed at is taken back, and readers say how until then") {
  file_ledger run;
  must(run.book->open_incarnation({"start", 0, {}}));
  must(run.book->issue(group_of(0, 4)));
  must(run.db->fold());
  // As a kill leaves it: pages of a transaction are in the file, those before it in the journal.
  must(run.db->execute(
      "PRAGMA cache_size = 1; BEGIN IMMEDIATE; CREATE TABLE big (x); "
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) "
      "INSERT INTO big SELECT randomblob(2000) FROM n"));
  const fs::path killed = run.folder.path() / "killed";
  fs::create_directory(killed);
  for (const char* end : {"", "-journal"})
    fs::copy_file(run.path.string() + end, (killed / "run.db").string() + end);
  must(run.db->execute("ROLLBACK"));
  const auto read = database::open(killed / "run.db", database::access::read);
  REQUIRE_FALSE(read.has_value());
  CHECK(read.error().message.find("quern resume takes that back") != std::string::npos);
  const auto checked = database::check_untouched(killed / "run.db");
  REQUIRE_FALSE(checked.has_value());
  CHECK(checked.error().code == base::errc::conflict);
  CHECK(checked.error().message.find("quern resume takes that back") != std::string::npos);
  must(database::take_back_interrupted(killed / "run.db"));
  auto whole = must(database::open(killed / "run.db", database::access::read));
  CHECK(must(must(ledger::open(*whole))->counts()).issued_ever == 4);
  CHECK_FALSE(whole->execute("SELECT count(*) FROM big").has_value());
  // Where there is none, nothing is changed: also not a log.
  must(database::take_back_interrupted(run.folder.path() / "not there"));
}

TEST_CASE("a reader keeps the log from being folded, and nothing is lost") {
  file_ledger run;
  must(run.book->open_incarnation({"start", 0, {}}));
  must(run.book->issue(group_of(0, 4)));
  must(run.book->commit());
  auto reading = must(database::open(run.path, database::access::read));
  must(reading->execute("BEGIN; SELECT count(*) FROM samples"));
  must(run.db->execute("PRAGMA busy_timeout = 1"));
  must(run.book->issue(group_of(1, 4)));
  CHECK(run.db->fold().error().code == base::errc::conflict);
  CHECK(must(run.book->counts()).issued_ever == 8);
}

TEST_CASE("a connection that is idle keeps the log, too, and nothing is lost") {
  file_ledger run;
  must(run.book->open_incarnation({"start", 0, {}}));
  auto reading = must(database::open(run.path, database::access::read));
  must(run.db->execute("PRAGMA busy_timeout = 1"));
  must(run.book->issue(group_of(0, 4)));
  const auto folded = run.db->fold();
  REQUIRE_FALSE(folded.has_value());
  CHECK(folded.error().code == base::errc::conflict);
  CHECK(folded.error().message.find("copy run.db-wal with run.db") != std::string::npos);
  CHECK(must(must(ledger::open(*reading))->counts()).issued_ever == 4);
}

TEST_CASE("a flipped byte at the head of any page is found, with what to do") {
  file_ledger run;
  must(run.book->open_incarnation({"start", 0, {}}));
  must(run.book->issue(group_of(0, 200)));
  must(run.db->fold());
  must(run.db->quick_check());
  run.book.reset();
  run.db.reset();
  const std::string whole = must(base::read_file(run.path));
  constexpr std::size_t page = 4096;
  REQUIRE(whole.size() > 10 * page);
  for (std::size_t at = page; at < whole.size(); at += page) {
    CAPTURE(at / page);
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x40);
    must(base::write_file_atomic(run.path, damaged));
    const auto checked = [&]() -> base::status {
      QUERN_TRY(const auto db, database::open(run.path, database::access::read));
      return db->quick_check();
    }();
    REQUIRE_FALSE(checked.has_value());
    CHECK(checked.error().code == base::errc::corrupt);
    CHECK(checked.error().message.find("from a copy") != std::string::npos);
  }
}

/// Names, contents and times of change of all files in a folder.
std::string state_of(const fs::path& folder) {
  std::vector<std::string> lines;
  for (const auto& entry : fs::directory_iterator(folder))
    lines.push_back(fmt::format("{} {} {}", entry.path().filename().string(),
                                entry.last_write_time().time_since_epoch().count(),
                                must(base::read_file(entry.path()))));
  std::sort(lines.begin(), lines.end());
  return fmt::format("{}", fmt::join(lines, "\n"));
}

TEST_CASE("a check without a trace sees what a reader sees, and leaves every file as it was") {
  file_ledger run;
  must(run.book->open_incarnation({"start", 0, {}}));
  must(run.book->issue(group_of(0, 200)));
  must(run.book->commit());
  const fs::path folder = run.folder.path() / "a %20 ?b=c #d";
  const fs::path file = folder / "run.db";
  const auto take = [&](const std::vector<std::string>& endings) {
    fs::remove_all(folder);
    fs::create_directory(folder);
    for (const std::string& ending : endings)
      fs::copy_file(run.path.string() + ending, file.string() + ending);
  };
  const auto code_of_check = [&]() -> std::optional<base::errc> {
    const std::string before = state_of(folder);
    const auto checked = database::check_untouched(file);
    CHECK(state_of(folder) == before);
    if (checked) return std::nullopt;
    CAPTURE(checked.error().message);
    CHECK(checked.error().message.find(file.string()) != std::string::npos);
    return checked.error().code;
  };
  const auto change = [&](const char* sql) {
    auto db = must(database::open(file, database::access::write));
    must(db->execute(sql));
    must(db->fold());
  };
  // Killed: the log holds rows, with its index and without.
  for (const auto& endings : {std::vector<std::string>{"", "-wal", "-shm"}, {"", "-wal"}}) {
    take(endings);
    CHECK_FALSE(code_of_check());
    std::string log = must(base::read_file(file.string() + "-wal"));
    REQUIRE(log.size() > 20'000);
  }
  // Rows of the log are read: here it holds the schema of a later build alone.
  must(run.db->execute("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA user_version = 3"));
  take({"", "-wal"});
  CHECK(code_of_check() == base::errc::version);
  must(run.db->execute("PRAGMA user_version = 2; PRAGMA wal_checkpoint(TRUNCATE)"));
  // With the mark of a log, and none beside it.
  take({""});
  CHECK_FALSE(code_of_check());
  must(run.db->fold());
  take({""});
  CHECK_FALSE(code_of_check());
  change("PRAGMA user_version = 3");
  CHECK(code_of_check() == base::errc::version);
  take({""});
  change("PRAGMA user_version = 1");
  CHECK_FALSE(code_of_check());
  const std::string whole = must(base::read_file(file));
  std::string damaged = whole;
  damaged[whole.size() / 2] = static_cast<char>(damaged[whole.size() / 2] ^ 0x40);
  damaged[4096] = static_cast<char>(damaged[4096] ^ 0x40);
  for (const std::string& content :
       {damaged, whole.substr(0, whole.size() / 2), std::string(5000, 'x')}) {
    must(base::write_file_atomic(file, content));
    CHECK(code_of_check() == base::errc::corrupt);
  }
  fs::remove(file);
  CHECK(code_of_check() == base::errc::io);
}

TEST_CASE("files that are not ours are refused with what was found") {
  const auto folder = must(base::temp_folder::make("ledger"));
  const fs::path path = folder.path() / "run.db";
  const auto open_error = [&](database::access how) {
    const auto opened = database::open(path, how);
    REQUIRE_FALSE(opened.has_value());
    return opened.error();
  };
  SUBCASE("not there, for a reader") {
    CHECK(open_error(database::access::read).code == base::errc::io);
  }
  SUBCASE("not SQLite") {
    must(base::write_file_atomic(path, std::string(5000, 'x')));
    CHECK(open_error(database::access::write).code == base::errc::corrupt);
    CHECK(must(base::read_file(path)) == std::string(5000, 'x'));
  }
  SUBCASE("empty, for a reader") {
    must(base::write_file_atomic(path, ""));
    CHECK(open_error(database::access::read).code == base::errc::corrupt);
  }
  SUBCASE("another program's") {
    {
      auto db = must(database::open(path, database::access::write));
      must(db->execute("PRAGMA application_id = 7"));
    }
    CHECK(open_error(database::access::write).code == base::errc::corrupt);
  }
  SUBCASE("of a newer schema") {
    {
      auto db = must(database::open(path, database::access::write));
      must(db->execute("PRAGMA user_version = 3"));
    }
    for (const auto how : {database::access::write, database::access::read}) {
      const auto error = open_error(how);
      CHECK(error.code == base::errc::version);
      CHECK(
          error.message.find("has schema 3, this build writes schema 2 and reads schema 1, too") !=
          std::string::npos);
    }
  }
}

TEST_CASE("the schema is the golden one") {
  auto db = must(database::in_memory());
  const std::string found = must(dump_schema(*db));
  const fs::path golden = source_dir() / "tests/golden/storage/schema.sql";
  if (std::getenv("QUERN_WRITE_GOLDEN") != nullptr) must(base::write_file_atomic(golden, found));
  CHECK_MESSAGE(found == must(base::read_file(golden)),
                "the schema changed: raise schema_version, say why, and write it again with "
                "QUERN_WRITE_GOLDEN=1");
}

}  // namespace
}  // namespace quern::test
