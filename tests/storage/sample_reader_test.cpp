// What people read of a run's samples, and what that keeps the writer from.
#include "storage/sample_reader.hpp"

#include "base/file.hpp"
#include "ledger_support.hpp"

namespace quern::test {
namespace {

using namespace quern::storage;

/// A ledger on a disk with `groups` groups of two; each pair of groups is a step.
struct disk_ledger {
  base::temp_folder folder = must(base::temp_folder::make("sample_reader"));
  std::filesystem::path file = folder.path() / "run.db";
  std::unique_ptr<database> db = must(
      database::open(file, database::access::write, default_batch_rows, {1'000'000, 2'000'000}));
  std::unique_ptr<ledger> book = must(ledger::open(*db));
  std::int64_t incarnation = must(book->open_incarnation({"start", 0, {}})).incarnation;

  std::vector<std::int64_t> issue() {
    const auto issued = must(book->issue(group_of(must(book->position()).next_seq, 2)));
    must(book->commit());
    return {issued.first_sample, issued.first_sample + 1};
  }
  void judge(const std::vector<std::int64_t>& samples, std::int64_t version) {
    for (const std::int64_t id : samples) {
      must(book->generated(tokens_of(id, incarnation, version, version)));
      must(book->evaluated(verdict_of(id, incarnation, 1)));
      const storage::admission one{id, 1.5};
      must(book->admit({&one, 1}));
    }
    must(book->commit());
  }
  void step(const std::vector<std::int64_t>& samples, std::int64_t number) {
    must(book->consume(samples, number));
    must(book->commit());
  }
  void checkpoint(std::int64_t version) { must(book->record_checkpoint({version, 0, "v", {}})); }
  void go_back(std::int64_t version) {
    incarnation =
        must(book->open_incarnation({"learner lost", version, [](auto, auto&) { return true; }}))
            .incarnation;
  }
  /// Whether the writer may empty its log now: nobody reads.
  bool can_empty_log() {
    auto emptying = must(db->prepare("PRAGMA wal_checkpoint(TRUNCATE)"));
    const auto row = emptying.next();
    return row && *row && emptying.integer(0) == 0;
  }
};

std::vector<std::int64_t> ids_of(const std::vector<listed_sample>& page) {
  std::vector<std::int64_t> ids;
  for (const listed_sample& one : page)
    ids.push_back(one.row.id);
  return ids;
}

}  // namespace

TEST_CASE("samples come in pages, newest first, and those of a step in the order of issue") {
  disk_ledger f;
  std::vector<std::int64_t> all;
  for (int group = 0; group < 4; ++group)
    for (const std::int64_t id : f.issue())
      all.push_back(id);
  f.judge({1, 2, 3, 4, 5}, 0);
  f.step({1, 2, 3, 4, 5}, 1);
  const auto reader = must(sample_reader::open(f.file, 3));
  CHECK(must(reader.last_sample()) == 8);
  CHECK(must(reader.last_step()) == 1);
  CHECK(ids_of(must(reader.below(INT64_MAX))) == std::vector<std::int64_t>{8, 7, 6});
  CHECK(ids_of(must(reader.below(3))) == std::vector<std::int64_t>{2, 1});
  CHECK(must(reader.below(1)).empty());
  CHECK(ids_of(must(reader.of_step(1, 0))) == std::vector<std::int64_t>{1, 2, 3});
  CHECK(ids_of(must(reader.of_step(1, 3))) == std::vector<std::int64_t>{4, 5});
  CHECK(must(reader.of_step(2, 0)).empty());
  const auto judged = must(reader.of_step(1, 0)).front();
  CHECK(judged.task == group_of(0, 2).task);
  REQUIRE(judged.verdict);
  CHECK(judged.verdict->row.sample == 1);
  CHECK_FALSE(must(reader.below(INT64_MAX)).front().verdict);
  CHECK(must(reader.tasks()) == std::vector<std::string>{group_of(0, 2).task});
}

TEST_CASE(
    "a sample without a verdict that counts shows its newest attempt, but none of a lost life") {
  disk_ledger f;
  const auto ids = f.issue();
  for (const std::int64_t id : ids)
    must(f.book->generated(tokens_of(id, f.incarnation, 0, 0)));
  must(f.book->evaluated(verdict_of(1, f.incarnation, 1, false)));
  must(f.book->commit());
  const auto reader = must(sample_reader::open(f.file));
  const auto attempt = must(reader.below(2)).front();
  REQUIRE(attempt.verdict);
  CHECK_FALSE(attempt.verdict->row.counts);
  // Its tokens are gone: what was found out about them says nothing about the sample any more.
  f.incarnation =
      must(f.book->open_incarnation({"resume", 0, [](auto, auto&) { return false; }})).incarnation;
  CHECK_FALSE(must(reader.below(2)).front().verdict);
}

TEST_CASE("no call leaves a read open: the writer can empty its log after each of them") {
  disk_ledger f;
  for (int group = 0; group < 20; ++group)
    f.judge(f.issue(), 0);
  f.step({1, 2}, 1);
  const auto reader = must(sample_reader::open(f.file, 4, 5));
  CHECK(f.can_empty_log());
  const auto after = [&](auto call) {
    // Something for the log, so that emptying it is work.
    f.issue();
    must(call());
    CHECK(f.can_empty_log());
  };
  after([&] { return reader.below(INT64_MAX); });
  after([&] { return reader.of_step(1, 0); });
  after([&] { return reader.last_sample(); });
  after([&] { return reader.last_step(); });
  after([&] { return reader.tasks(); });
  after([&] { return reader.sample(2); });
  after([&] { return reader.totals(); });
  after([&] { return reader.position(); });
  f.issue();
  CHECK_FALSE(reader.sample(999));
  CHECK(f.can_empty_log());
  // The control: a reader that stays in its transaction is in the way.
  f.issue();
  const auto other = must(database::open(f.file, database::access::read));
  must(other->execute("BEGIN; SELECT count(*) FROM samples"));
  CHECK_FALSE(f.can_empty_log());
}

TEST_CASE("the events of a sample are found in stretches, whatever their length") {
  disk_ledger f;
  for (std::int64_t step = 1; step <= 6; ++step) {
    const auto ids = f.issue();
    f.judge(ids, step - 1);
    f.step(ids, step);
  }
  f.checkpoint(6);
  for (const std::int64_t stretch : {1, 2, 7, 100'000}) {
    CAPTURE(stretch);
    const auto reader = must(sample_reader::open(f.file, 256, stretch));
    for (std::int64_t id = 1; id <= 12; ++id) {
      const auto found = must(reader.sample(id));
      REQUIRE(found.events.size() == 6);
      CHECK(found.events.front().to == sample_state::issued);
      CHECK(found.events.back().to == sample_state::trained);
      CHECK(found.row.id == id);
      CHECK(found.group.samples.size() == 2);
      CHECK(found.verdicts.size() == 1);
      // Issued between two steps: the newest version is that of the step before.
      CHECK(found.issued_at == (id - 1) / 2);
    }
  }
}

TEST_CASE(
    "what version was the newest is not told by a step that was made again with other samples") {
  disk_ledger f;
  const auto first = f.issue();
  f.judge(first, 0);
  f.step(first, 1);
  f.checkpoint(1);
  const auto second = f.issue();
  f.judge(second, 1);
  f.step(second, 2);
  const auto third = f.issue();
  const auto reader = must(sample_reader::open(f.file));
  CHECK(must(reader.sample(third[0])).issued_at == 2);
  // Step 2 is lost: its samples wait again, and make step 2 later. The row of none tells what
  // version was there when the third group was issued.
  f.go_back(1);
  CHECK(must(reader.sample(third[0])).issued_at == std::nullopt);
  const auto fourth = f.issue();
  CHECK(must(reader.sample(fourth[0])).issued_at == 1);
  f.judge(third, 1);
  f.step(third, 2);
  CHECK(must(reader.sample(third[0])).issued_at == std::nullopt);
  CHECK(must(reader.sample(fourth[0])).issued_at == 1);
  CHECK(must(reader.sample(second[0])).issued_at == 1);
}

TEST_CASE("totals in stretches are what the ledger counts at once") {
  disk_ledger f;
  std::vector<std::int64_t> used;
  for (std::int64_t step = 1; step <= 5; ++step) {
    const auto fresh = f.issue(), old = f.issue();
    f.judge(fresh, step - 1);
    f.judge(old, step > 2 ? step - 2 : 0);
    f.step(fresh, step);
    used = old;
    if (step == 4) f.checkpoint(4);
  }
  must(f.book->drop(used, "stale"));
  const auto more = f.issue();
  must(f.book->generated(tokens_of(more[0], f.incarnation, 2, 4)));
  must(f.book->evaluated(verdict_of(more[0], f.incarnation, 1)));
  const storage::admission one{more[0], 1};
  must(f.book->admit({&one, 1}));
  f.step({more[0]}, 6);
  must(f.book->drop(std::vector{more[1]}, "noisy"));
  must(f.book->commit());
  for (const std::int64_t stretch : {1, 2, 3, 7, 100'000}) {
    CAPTURE(stretch);
    const auto sum = must(must(sample_reader::open(f.file, 256, stretch)).totals());
    const auto counts = must(f.book->counts());
    CHECK(sum.counts.issued_ever == counts.issued_ever);
    CHECK(sum.counts.by_state == counts.by_state);
    CHECK(sum.counts.law_holds());
    CHECK(sum.drop_reasons == must(f.book->drop_reasons()));
    CHECK(sum.ages.by_age == must(f.book->ages()).by_age);
    CHECK(sum.ages.mixed == 1);
  }
  // Nothing at all, and a row that somebody has taken away.
  disk_ledger none;
  CHECK(must(must(sample_reader::open(none.file)).totals()).counts.issued_ever == 0);
  must(f.db->execute("DROP TRIGGER samples_stay"));
  must(f.db->execute("PRAGMA foreign_keys = OFF"));
  must(f.db->execute("DELETE FROM samples WHERE id = (SELECT max(id) FROM samples)"));
  CHECK_FALSE(must(must(sample_reader::open(f.file)).totals()).counts.law_holds());
}

TEST_CASE("a reader of a run that is not there, or is no database, says which file") {
  const base::temp_folder folder = must(base::temp_folder::make("no_reader"));
  const auto missing = sample_reader::open(folder.path() / "run.db");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().message.find("run.db") != std::string::npos);
  must(base::write_file_atomic(folder.path() / "run.db", std::string(8192, 'x')));
  const auto damaged = sample_reader::open(folder.path() / "run.db");
  REQUIRE_FALSE(damaged);
  CHECK(damaged.error().code == base::errc::corrupt);
}

}  // namespace quern::test
