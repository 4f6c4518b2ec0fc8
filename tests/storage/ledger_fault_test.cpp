// The ledger on a disk that fails: at every single call of a short life, in every way. Whatever
// happens, a ledger that is opened on a sound disk afterwards keeps the law and holds what was
// acknowledged, and nothing but whole batches.
#include <functional>
#include <set>

#include "base/file.hpp"
#include "fault_vfs.hpp"
#include "ledger_support.hpp"

namespace quern::test {
namespace {

using namespace quern::storage;
namespace fs = std::filesystem;

/// Everything but the times. Error: a row cannot be read, since a page has to be written for it.
base::expected<std::string> read_rows(database& db) {
  std::string all;
  for (const char* question :
       {"SELECT id, from_version, reason FROM incarnations", "SELECT id, seq FROM groups",
        "SELECT id, state, incarnation, v_max, reward, step, drop_reason FROM samples",
        "SELECT id, sample, attempt FROM verdicts", "SELECT version, incarnation FROM checkpoints",
        "SELECT seq, sample, old, new, incarnation FROM events", "SELECT x FROM scratch"}) {
    QUERN_TRY(statement rows, db.prepare(question));
    while (true) {
      QUERN_TRY(const bool row, rows.next());
      if (!row) break;
      for (int column = 0; column < 7; ++column)
        all += rows.text(column) + " ";
      all += '\n';
    }
  }
  return all;
}

std::string rows_of(database& db) {
  return must(read_rows(db));
}

/// One operation after the other, as a run makes them.
class short_life {
 public:
  using operation = std::function<base::status(database&, ledger&)>;

  static const std::vector<operation>& operations() {
    static const std::vector<operation> all = {
        [](database&, ledger& book) {
          return done(book.open_incarnation({"start", 0, {}}));
        },
        [](database&, ledger& book) { return done(book.issue(group_of(0, 4))); },
        [](database&, ledger& book) { return book.commit(); },
        [](database&, ledger& book) { return done(book.generated(tokens_of(1, 1, 0, 0))); },
        [](database&, ledger& book) { return done(book.generated(tokens_of(2, 1, 0, 0))); },
        [](database&, ledger& book) { return done(book.evaluated(verdict_of(1, 1, 1))); },
        [](database&, ledger& book) { return done(book.evaluated(verdict_of(2, 1, 1))); },
        // Larger than a batch, and than the cache where that is small.
        [](database&, ledger& book) { return done(book.issue(group_of(1, 40))); },
        [](database&, ledger& book) {
          return admit(book, {1, 2});
        },
        [](database&, ledger& book) { return drop(book, {3}); },
        [](database&, ledger& book) {
          return consume(book, {1, 2});
        },
        [](database&, ledger& book) {
          return done(book.record_checkpoint({1, 1, "checkpoints/v00000001", {}}));
        },
        [](database&, ledger& book) { return done(book.generated(tokens_of(4, 1, 1, 1))); },
        [](database&, ledger& book) {
          return done(book.open_incarnation({"resume", 1, {}}));
        },
        [](database&, ledger& book) { return done(book.generated(tokens_of(5, 2, 1, 1))); },
        [](database& db, ledger&) { return db.fold(); },
    };
    return all;
  }

 private:
  template <class T>
  static base::status done(const base::expected<T>& result) {
    if (!result) return tl::make_unexpected(result.error());
    return {};
  }
  static base::status admit(ledger& book, const std::vector<std::int64_t>& ids) {
    std::vector<admission> all;
    for (const std::int64_t id : ids)
      all.push_back({id, 0.5});
    return book.admit(all);
  }
  static base::status drop(ledger& book, const std::vector<std::int64_t>& ids) {
    return book.drop(ids, "stale");
  }
  static base::status consume(ledger& book, const std::vector<std::int64_t>& ids) {
    return book.consume(ids, 1);
  }
};

struct disk_case {
  disk_fault what;
  bool from_then_on;
  bool small_cache;  ///< pages go to the log in the middle of a batch
};

/// One life after the other, each with its fault at the next call.
class faulty_lives {
 public:
  explicit faulty_lives(const disk_case& how) : case_(how) {
    {
      // The schema is written once: making it has a test of its own.
      const auto db = must(database::open(fresh_, database::access::write));
      must(db->execute("CREATE TABLE scratch(x INTEGER)"));
    }
    const fs::path path = copy_fresh();
    auto db = must(open(path));
    auto book = must(ledger::open(*db));
    rows_.push_back(rows_of(*db));
    for (const auto& operation : short_life::operations()) {
      must(operation(*db, *book));
      rows_.push_back(rows_of(*db));
    }
  }

  /// How many calls were made to fail, one in each life.
  std::int64_t live_them_all() {
    for (std::int64_t call = 0;; ++call) {
      CAPTURE(call);
      if (!live(call)) return call;
    }
  }

  std::int64_t given_up = 0;  ///< lives whose ledger wrote no more
  std::int64_t went_on = 0;   ///< that could write after an operation that failed

 private:
  [[nodiscard]] fs::path copy_fresh() const {
    const fs::path path = folder_.path() / "run.db";
    for (const char* end : {"-wal", "-shm", "-journal"})
      fs::remove(path.string() + end);
    fs::copy_file(fresh_, path, fs::copy_options::overwrite_existing);
    return path;
  }

  [[nodiscard]] base::expected<std::unique_ptr<database>> open(const fs::path& path) const {
    QUERN_TRY(auto db, database::open(path, database::access::write, 8));
    if (case_.small_cache)
      QUERN_CHECK(db->execute("PRAGMA cache_size = 4; PRAGMA cache_spill = 1"));
    return db;
  }

  /// Whether the fault came up.
  bool live(std::int64_t call) {
    const fs::path path = copy_fresh();
    disk_.fail_at(call, case_.what, case_.from_then_on);
    write(path);
    const bool fired = disk_.fired();
    disk_.heal();
    const auto db = must(database::open(path, database::access::write));
    const std::string found = rows_of(*db);
    CHECK_MESSAGE(std::count(allowed_.begin(), allowed_.end(), found) > 0,
                  "rows that were not acknowledged, or half a batch:\n"
                      << found);
    must(db->quick_check());
    if (!audited_.insert(found).second) return fired;
    // It can be gone on with.
    const auto book = must(ledger::open(*db));
    const auto at = must(book->position());
    must(book->open_incarnation({"after", at.checkpoint ? at.checkpoint->version : 0, {}}));
    must(book->issue(group_of(at.next_seq, 2)));
    must(book->commit());
    must(book->audit());
    return fired;
  }

  /// Until something fails. Sets allowed_: what may be found afterwards.
  void write(const fs::path& path) {
    allowed_ = {rows_[0]};
    const auto db = open(path);
    if (!db) return;
    const auto book = ledger::open(**db);
    if (!book) return;
    const auto& operations = short_life::operations();
    std::size_t acknowledged = 0;
    for (std::size_t at = 0; at < operations.size(); ++at) {
      if (const auto made = operations[at](**db, **book); !made) {
        CAPTURE(at);
        CAPTURE(made.error().message);
        return after_failure(**db, **book, acknowledged, at);
      }
      if ((*book)->durable()) acknowledged = at + 1;
    }
    allowed_ = {rows_.back()};
  }

  /// Operation `failed` did not work. Either nothing more is written, or all is as it was before
  /// it.
  void after_failure(database& db, ledger& book, std::size_t acknowledged, std::size_t failed) {
    const std::string &before = rows_[failed], &after = rows_[failed + 1];
    allowed_ = {rows_[acknowledged], before, after};
    const auto seen = read_rows(db);
    const auto write_more = [&] {
      return db.atomically(1, [&] { return db.execute("INSERT INTO scratch VALUES (1)"); });
    };
    if (!write_more()) {
      // Another operation that changed nothing, or none that ever will change anything.
      if (book.commit()) {
        allowed_ = {before};
        return;
      }
      ++given_up;
      CHECK_FALSE(write_more().has_value());
      return;
    }
    ++went_on;
    // Where no page can be read any more, writing goes on in those that are kept in memory.
    REQUIRE((seen.has_value() || case_.from_then_on));
    CHECK_MESSAGE(seen.value_or(before) == before,
                  "an operation that failed has changed something");
    const std::string more = before + "1       \n";  // the row in scratch
    if (book.commit()) {
      allowed_ = {more};
    } else {
      allowed_.push_back(more);
    }
  }

  fault_vfs disk_;
  disk_case case_;
  base::temp_folder folder_ = must(base::temp_folder::make("faults"));
  fs::path fresh_ = folder_.path() / "fresh.db";
  std::vector<std::string> rows_;     ///< before the first operation, and after each
  std::vector<std::string> allowed_;  ///< what the next reader may find
  std::set<std::string> audited_;     ///< what readers have found
};

TEST_CASE("a ledger keeps the law and its word whichever write, sync or truncation fails") {
  std::int64_t faults = 0, given_up = 0, went_on = 0;
  for (const disk_case& how : std::initializer_list<disk_case>{
           {disk_fault::full, false, false},
           {disk_fault::io_error, false, false},
           {disk_fault::short_full, false, false},
           {disk_fault::short_io_error, false, false},
           {disk_fault::full, true, false},
           {disk_fault::short_io_error, true, false},
           {disk_fault::full, false, true},
           {disk_fault::io_error, false, true},
           {disk_fault::short_io_error, true, true},
       }) {
    CAPTURE(static_cast<int>(how.what));
    CAPTURE(how.from_then_on);
    CAPTURE(how.small_cache);
    faulty_lives lives(how);
    const std::int64_t calls = lives.live_them_all();
    CHECK(calls > 60);
    CHECK(lives.given_up > 0);
    faults += calls;
    given_up += lives.given_up;
    went_on += lives.went_on;
  }
  CHECK(went_on > 0);
  MESSAGE(faults << " faults; " << given_up << " ledgers wrote no more, " << went_on << " went on");
}

TEST_CASE("a ledger keeps the law and its word whichever read, opening, deletion or lock fails") {
  struct call_case {
    disk_case how;
    std::int64_t fewest;  ///< calls of the kind in such a life
  };
  std::int64_t faults = 0, given_up = 0, went_on = 0;
  for (const call_case& each : std::initializer_list<call_case>{
           {{disk_fault::read_error, false, false}, 20},
           {{disk_fault::read_error, true, false}, 20},
           {{disk_fault::read_error, false, true}, 100},
           {{disk_fault::read_error, true, true}, 100},
           {{disk_fault::short_read, false, false}, 20},
           {{disk_fault::short_read, false, true}, 100},
           {{disk_fault::cannot_open, false, false}, 2},
           {{disk_fault::cannot_open, true, false}, 2},
           {{disk_fault::delete_error, false, false}, 1},
           {{disk_fault::delete_error, true, false}, 1},
           {{disk_fault::map_error, false, false}, 1},
           {{disk_fault::map_error, true, false}, 1},
           {{disk_fault::lock_error, false, false}, 20},
           {{disk_fault::lock_error, true, false}, 20},
           {{disk_fault::status_error, false, false}, 5},
           {{disk_fault::status_error, true, false}, 5},
       }) {
    CAPTURE(static_cast<int>(each.how.what));
    CAPTURE(each.how.from_then_on);
    CAPTURE(each.how.small_cache);
    faulty_lives lives(each.how);
    const std::int64_t calls = lives.live_them_all();
    CHECK(calls >= each.fewest);
    faults += calls;
    given_up += lives.given_up;
    went_on += lives.went_on;
  }
  CHECK(given_up > 0);
  CHECK(went_on > 0);
  MESSAGE(faults << " faults; " << given_up << " ledgers wrote no more, " << went_on << " went on");
}

TEST_CASE("a ledger that could not be made is made by the next one who tries") {
  struct birth {
    disk_fault what;
    bool from_then_on;
    std::int64_t fewest;  ///< calls of the kind while a ledger is made
  };
  fault_vfs disk;
  for (const birth& each : std::initializer_list<birth>{
           {disk_fault::short_io_error, false, 30},
           {disk_fault::full, true, 30},
           {disk_fault::read_error, false, 1},
           {disk_fault::read_error, true, 1},
           {disk_fault::short_read, false, 1},
           {disk_fault::cannot_open, false, 2},
           {disk_fault::cannot_open, true, 2},
           {disk_fault::delete_error, false, 1},
           {disk_fault::delete_error, true, 1},
           {disk_fault::lock_error, false, 5},
           {disk_fault::lock_error, true, 5},
           {disk_fault::status_error, false, 5},
           {disk_fault::status_error, true, 5},
       }) {
    CAPTURE(static_cast<int>(each.what));
    CAPTURE(each.from_then_on);
    std::int64_t call = 0;
    for (bool fired = true; fired; ++call) {
      CAPTURE(call);
      const base::temp_folder folder = must(base::temp_folder::make("faults"));
      const fs::path path = folder.path() / "run.db";
      disk.fail_at(call, each.what, each.from_then_on);
      const bool made = database::open(path, database::access::write).has_value();
      fired = disk.fired();
      CHECK((made || fired));
      disk.heal();
      auto db = must(database::open(path, database::access::write));
      must(db->quick_check());
      must(must(ledger::open(*db))->open_incarnation({"start", 0, {}}));
    }
    CHECK(call > each.fewest);
  }
}

TEST_CASE("a batch that SQLite rolled back by itself is the last: no later write goes beside it") {
  const base::temp_folder folder = must(base::temp_folder::make("ledger"));
  const auto acknowledged = [&] {
    auto reading = must(database::open(folder.path() / "run.db", database::access::read));
    return must(must(ledger::open(*reading))->counts()).issued_ever;
  };
  auto db = must(database::open(folder.path() / "run.db", database::access::write));
  auto book = must(ledger::open(*db));
  must(book->open_incarnation({"start", 0, {}}));
  must(book->issue(group_of(0, 1)));
  const char* const gives_up = "INSERT OR ROLLBACK INTO pairs SELECT * FROM pairs LIMIT 1";
  SUBCASE("in a write") {
    for (const std::int64_t rows : {1, 2}) {
      const auto failed = db->atomically(rows, [&] { return db->execute(gives_up); });
      REQUIRE_FALSE(failed.has_value());
      CHECK(failed.error().message.find("end and recover") != std::string::npos);
    }
  }
  SUBCASE("beside a write") {
    CHECK_FALSE(db->execute(gives_up).has_value());
  }
  CHECK_FALSE(db->atomically(1, [&] {
                  return db->execute("INSERT INTO groups VALUES (7, 7, 't', '[]', '', '', 1)");
                }).has_value());
  CHECK_FALSE(book->issue(group_of(1, 1)).has_value());
  CHECK_FALSE(book->commit().has_value());
  CHECK(acknowledged() == 0);
}

TEST_CASE("where WAL cannot be turned on a ledger is not written") {
  fault_vfs disk;
  disk.without_shared_memory();
  const base::temp_folder folder = must(base::temp_folder::make("ledger"));
  const auto refused = database::open(folder.path() / "run.db", database::access::write);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == base::errc::unavailable);
  CHECK(refused.error().message.find("journal mode 'delete', 'wal' is needed") !=
        std::string::npos);
}

}  // namespace
}  // namespace quern::test
