// The ledger's operations one by one: what they change, refuse, ignore and remember.
#include <cmath>
#include <fstream>

#include "base/file.hpp"
#include "ledger_support.hpp"

namespace quern::test {
namespace {

using namespace quern::storage;

TEST_CASE("a sample lives its whole life and every row tells it") {
  open_ledger run;
  ledger& book = *run.book;
  const auto issued = must(book.issue(group_of(0, 2)));
  CHECK(issued.first_sample == 1);
  CHECK(must(book.sample(1)).state == sample_state::issued);
  CHECK(must(book.generated(tokens_of(1, 1, 0, 0))).outcome == arrival::accepted);
  CHECK(must(book.sample(1)).segments == std::vector<segment>{{0, 0, {5, 6}}});
  const auto judged = must(book.evaluated(verdict_of(1, 1, 1)));
  CHECK(judged.outcome == arrival::accepted);
  const admission admitted{1, 1.25};
  must(book.admit({&admitted, 1}));
  const std::vector<std::int64_t> ids = {1};
  must(book.consume(ids, 1));
  CHECK(must(book.position()).version == 1);
  CHECK(must(book.record_checkpoint({1, 0, "checkpoints/v00000001", {1, 1}})) == 1);

  const sample_row row = must(book.sample(1));
  CHECK(row.state == sample_state::trained);
  CHECK(row.reward == 1.25);
  CHECK(row.step == 1);
  CHECK(row.verdict_id == judged.id);
  CHECK(row.source_hash == base::hash128{10, 1});
  const auto verdicts = must(book.verdicts_of(1));
  REQUIRE(verdicts.size() == 1);
  CHECK(verdicts[0].row.counts);
  CHECK(verdicts[0].row.json == R"({"verdict":"ok"})");
  const auto events = must(book.events_of(1));
  REQUIRE(events.size() == 6);
  CHECK_FALSE(events.front().from.has_value());
  CHECK(events.back().to == sample_state::trained);

  const auto counts = must(book.counts());
  CHECK(counts.issued_ever == 2);
  CHECK(counts.of(sample_state::trained) == 1);
  CHECK(counts.in_flight() == 1);
  CHECK(counts.law_holds());
  const auto here = must(book.position());
  CHECK(here.checkpoint->version == 1);
  CHECK(here.checkpoint->incarnation == 1);
  CHECK(here.next_seq == 1);
  const group_row group = must(book.group(issued.group));
  CHECK(group.exemplars == std::vector<std::int64_t>{3, 1});
  CHECK(group.samples.size() == 2);
  CHECK(must(book.live_groups()).size() == 1);
  must(book.audit());
}

TEST_CASE("the first verdict of an attempt wins; late and stale answers are ignored and counted") {
  open_ledger run;
  ledger& book = *run.book;
  run.group_in(sample_state::generated, 1);
  CHECK(must(book.generated(tokens_of(1, 1, 0, 0))).outcome == arrival::late);
  // A noisy measurement is kept and the sample waits for the next attempt.
  CHECK(must(book.evaluated(verdict_of(1, 1, 1, false))).outcome == arrival::accepted);
  CHECK(must(book.sample(1)).state == sample_state::generated);
  CHECK(must(book.evaluated(verdict_of(1, 1, 1))).outcome == arrival::late);
  CHECK(must(book.sample(1)).state == sample_state::generated);
  const auto second = must(book.evaluated(verdict_of(1, 1, 2)));
  CHECK(second.outcome == arrival::accepted);
  CHECK(must(book.evaluated(verdict_of(1, 1, 2))).outcome == arrival::late);
  CHECK(must(book.evaluated(verdict_of(1, 1, 3))).outcome == arrival::late);
  CHECK(must(book.sample(1)).verdict_id == second.id);
  const auto kept = must(book.verdicts_of(1));
  REQUIRE(kept.size() == 2);
  CHECK_FALSE(kept[0].row.counts);
  CHECK(kept[1].row.counts);

  run.group_in(sample_state::generated, 1);
  must(book.open_incarnation({"crash", 0, {}}));
  CHECK(must(book.evaluated(verdict_of(2, 1, 1))).outcome == arrival::stale);
  CHECK(must(book.generated(tokens_of(2, 1, 0, 0))).outcome == arrival::stale);
  CHECK(must(book.evaluated(verdict_of(2, 2, 1))).outcome == arrival::accepted);
  CHECK(book.ignored().late == 4);
  CHECK(book.ignored().stale == 2);
  CHECK_FALSE(book.evaluated(verdict_of(2, 3, 1)).has_value());
}

TEST_CASE("samples that were judged are visited by their verdicts, whatever became of them") {
  open_ledger run;
  ledger& book = *run.book;
  run.group_in(sample_state::generated, 2);
  must(book.evaluated(verdict_of(2, 1, 1)));
  must(book.evaluated(verdict_of(1, 1, 1, false)));  // noisy: decides nothing
  CHECK(must(book.judged()) == 1);
  const std::vector<std::int64_t> both = {1, 2};
  must(book.evaluated(verdict_of(1, 1, 2)));
  must(book.drop(both, "no_learner"));
  CHECK(must(book.judged()) == 2);
  std::vector<std::int64_t> seen;
  const auto note = [&](const stored_verdict& one) -> base::status {
    CHECK(one.row.counts);
    seen.push_back(one.row.sample);
    return {};
  };
  must(book.visit_judged(note));
  CHECK(seen == std::vector<std::int64_t>{2, 1});
  CHECK_FALSE(book.visit_judged([](const stored_verdict&) -> base::status {
    return base::fail(base::errc::internal, "enough");
  }));
}

TEST_CASE("operations that do not fit are refused whole, with the reason") {
  open_ledger run;
  ledger& book = *run.book;
  const auto ready = run.group_in(sample_state::admitted, 2);
  const auto waiting = run.group_in(sample_state::evaluated, 1);

  const std::vector<std::int64_t> mixed = {ready[0], waiting[0]};
  const auto refused = book.consume(mixed, 1);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == base::errc::conflict);
  CHECK(refused.error().message == "sample 3 is evaluated, not admitted");
  CHECK(must(book.sample(ready[0])).state == sample_state::admitted);
  CHECK(must(book.position()).version == 0);

  const std::vector<std::int64_t> twice = {ready[0], ready[0]};
  CHECK_FALSE(book.consume(twice, 1).has_value());
  CHECK_FALSE(book.consume({}, 1).has_value());
  CHECK(book.consume(ready, 2).error().code == base::errc::internal);
  CHECK(book.issue(group_of(7, 1)).error().code == base::errc::conflict);
  CHECK(book.issue(group_of(2, 0)).error().code == base::errc::invalid_argument);
  CHECK(book.drop(ready, "").error().code == base::errc::invalid_argument);
  CHECK(book.sample(99).error().code == base::errc::not_found);
  CHECK(book.record_checkpoint({1, 0, "x", {}}).error().code == base::errc::internal);
  const admission unreal{waiting[0], std::nan("")};
  CHECK(book.admit({&unreal, 1}).error().code == base::errc::invalid_argument);
  must(book.consume(ready, 1));
  CHECK(book.drop(ready, "stale").error().code == base::errc::conflict);
  CHECK(book.stop().error().message.find("2 samples") == 0);
  must(book.record_checkpoint({1, 0, "x", {}}));
  CHECK(book.record_checkpoint({1, 0, "x", {}}).error().code == base::errc::already_exists);
  CHECK(book.drop(ready, "stale").error().code == base::errc::conflict);
  CHECK(must(book.stop()) == 1);
  CHECK(must(book.drop_reasons()).at("stopped") == 1);
  CHECK(must(book.counts()).in_flight() == 0);
  must(book.audit());

  for (auto segments : std::vector<std::vector<segment>>{
           {}, {{1, 0, {}}}, {{0, -1, {}}}, {{0, 2, {}}, {5, 1, {}}}, {{0, 0, {}}, {0, 1, {}}}}) {
    const auto fresh = run.group_in(sample_state::issued, 1);
    generation bad{fresh[0], 1, segments, {}};
    CHECK(book.generated(bad).error().code == base::errc::invalid_argument);
    CHECK(must(book.sample(fresh[0])).state == sample_state::issued);
  }
}

TEST_CASE("nothing is written before an incarnation is open") {
  auto db = must(database::in_memory());
  auto book = must(ledger::open(*db));
  CHECK(book->issue(group_of(0, 1)).error().code == base::errc::conflict);
  CHECK(book->stop().error().code == base::errc::conflict);
}

TEST_CASE("a negative age is fatal, in the code and in the table") {
  open_ledger run;
  const auto fresh = run.group_in(sample_state::admitted, 1, 1);
  const auto refused = run.book->consume(fresh, 1);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == base::errc::internal);
  CHECK(refused.error().message.find("age is negative") != std::string::npos);
  const auto forced = run.db->execute("UPDATE samples SET state = 'consumed', step = 1");
  REQUIRE_FALSE(forced.has_value());
  CHECK(forced.error().message.find("age_is_not_negative") != std::string::npos);
}

TEST_CASE("ages and samples of mixed versions are counted") {
  open_ledger run;
  ledger& book = *run.book;
  must(book.consume(run.group_in(sample_state::admitted, 2), 1));
  const auto issued = must(book.issue(group_of(1, 1)));
  must(book.generated(tokens_of(issued.first_sample, 1, 0, 1)));
  must(book.evaluated(verdict_of(issued.first_sample, 1, 1)));
  const admission one{issued.first_sample, 0};
  must(book.admit({&one, 1}));
  const std::vector<std::int64_t> ids = {issued.first_sample};
  must(book.consume(ids, 2));
  const auto ages = must(book.ages());
  CHECK(ages.by_age == std::map<std::int64_t, std::int64_t>{{0, 2}, {1, 1}});
  CHECK(ages.mixed == 1);
}

TEST_CASE("a crash rolls back to the last checkpoint in a new incarnation") {
  open_ledger run;
  ledger& book = *run.book;
  const auto old = run.group_in(sample_state::admitted, 1);
  must(book.consume(old, 1));
  must(book.record_checkpoint({1, 0, "checkpoints/v00000001", {1, 1}}));
  const auto by_checkpoint = run.group_in(sample_state::admitted, 1, 1);
  const auto still_here = run.group_in(sample_state::generated, 2, 1);
  must(book.consume(by_checkpoint, 2));
  const auto by_lost = run.group_in(sample_state::admitted, 1, 2);
  const auto lost_and_used = run.group_in(sample_state::admitted, 1, 2);
  must(book.consume(lost_and_used, 3));
  const auto just_issued = run.group_in(sample_state::issued, 1);

  const auto gone = still_here[1];
  const auto report = must(book.open_incarnation(
      {"crash", 1, [&](std::int64_t sample, const base::hash128&) { return sample != gone; }}));
  CHECK(report.incarnation == 2);
  CHECK(report.readmitted == 1);
  CHECK(report.reissued == 2);
  CHECK(report.unreadable == 1);
  CHECK(must(book.sample(old[0])).state == sample_state::trained);
  CHECK(must(book.sample(by_checkpoint[0])).state == sample_state::admitted);
  CHECK_FALSE(must(book.sample(by_checkpoint[0])).step.has_value());
  CHECK(must(book.sample(still_here[0])).state == sample_state::generated);
  CHECK(must(book.sample(just_issued[0])).state == sample_state::issued);
  for (const std::int64_t id : {by_lost[0], lost_and_used[0], gone}) {
    const sample_row row = must(book.sample(id));
    CHECK(row.state == sample_state::issued);
    CHECK(row.incarnation == 2);
    CHECK_FALSE(row.tokens_hash.has_value());
    CHECK_FALSE(row.verdict_id.has_value());
  }
  CHECK(must(book.position()).version == 1);
  CHECK(must(book.counts()).law_holds());
  // Version 2 is made again, from the sample that was used before.
  must(book.consume(by_checkpoint, 2));
  must(book.record_checkpoint({2, 0, "checkpoints/v00000002", {2, 2}}));
  CHECK(must(book.sample(by_checkpoint[0])).state == sample_state::trained);
  must(book.audit());
}

TEST_CASE("when the last checkpoint cannot be read, the one before takes over") {
  open_ledger run;
  ledger& book = *run.book;
  const auto first = run.group_in(sample_state::admitted, 1);
  const auto second = run.group_in(sample_state::admitted, 1);
  must(book.consume(first, 1));
  must(book.record_checkpoint({1, 0, "a", {}}));
  must(book.consume(second, 2));
  must(book.record_checkpoint({2, 0, "b", {}}));
  CHECK(book.open_incarnation({"corrupt", 5, {}}).error().code == base::errc::invalid_argument);
  const auto report = must(book.open_incarnation({"checkpoint 2 cannot be read", 1, {}}));
  CHECK(report.readmitted == 1);
  CHECK(must(book.sample(second[0])).state == sample_state::admitted);
  const auto left = must(book.checkpoints());
  REQUIRE(left.size() == 1);
  CHECK(left[0].version == 1);
  CHECK(must(book.position()).version == 1);
  must(book.audit());
  must(book.consume(second, 2));
  must(book.record_checkpoint({2, 0, "b", {}}));
  CHECK(must(book.checkpoints()).size() == 2);
  must(book.audit());
}

TEST_CASE("the triggers hold the law against whoever writes") {
  open_ledger run;
  const auto ids = run.group_in(sample_state::admitted, 1);
  must(run.db->commit());
  const auto refused = [&](const char* sql) {
    const auto result = run.db->execute(sql);
    return result.has_value() ? std::string("allowed") : result.error().message;
  };
  CHECK(refused("UPDATE samples SET state = 'trained', step = 1") != "allowed");
  CHECK(refused("UPDATE samples SET state = 'generated'") != "allowed");
  CHECK(refused("UPDATE samples SET state = 'admitted'") != "allowed");
  CHECK(refused("UPDATE samples SET state = 'dropped'") != "allowed");
  CHECK(refused("UPDATE samples SET state = 'x'") != "allowed");
  CHECK(refused("UPDATE samples SET k = 4") != "allowed");
  CHECK(refused("DELETE FROM samples") != "allowed");
  CHECK(refused("DELETE FROM events") != "allowed");
  CHECK(refused("UPDATE events SET new = 'issued'") != "allowed");
  CHECK(refused("DELETE FROM verdicts") != "allowed");
  CHECK(refused("UPDATE incarnations SET opening = 1") != "allowed");
  CHECK(refused("INSERT INTO samples(id, grp, k, state, incarnation, t_ns) "
                "VALUES (9, 1, 9, 'admitted', 1, 0)") != "allowed");
  CHECK(refused("INSERT INTO never VALUES (1)") != "allowed");
  CHECK(refused("INSERT INTO incarnations(id, from_version, reason, t_ns) VALUES (5, 0, 'x', 0)") !=
        "allowed");
  // An incarnation that stays open for backward steps cannot be committed.
  CHECK(refused("INSERT INTO incarnations VALUES (2, 0, 'x', 0, 1)").find("FOREIGN KEY") !=
        std::string::npos);
  // Inside the transaction that opens one, backward steps are legal; after it, no more.
  CHECK(refused("BEGIN; INSERT INTO incarnations VALUES (2, 0, 'x', 0, 1);"
                "UPDATE samples SET state = 'issued', v_min = NULL, v_max = NULL, segments = NULL, "
                "tokens_hash = NULL, source_hash = NULL, verdict_id = NULL, reward = NULL;"
                "UPDATE incarnations SET opening = NULL; COMMIT") == "allowed");
  CHECK(must(run.book->sample(ids[0])).state == sample_state::issued);
  must(run.book->audit());
}

TEST_CASE("columns that hold nonsense are corrupt, never a crash or a guess") {
  open_ledger run;
  run.group_in(sample_state::evaluated, 1);
  must(run.db->commit());
  for (const char* segments : {"", "{}", "[1]", "[[0,0]]", "[[0,\"a\",\"b\"]]", "[[0,0,\"zz\"]]",
                               "[[[[[[[[]]]]]]]]", "[[1e300,0,\"0\"]]"}) {
    CAPTURE(std::string(segments));
    must(run.db->execute(fmt::format("UPDATE samples SET segments = '{}'", segments).c_str()));
    CHECK(run.book->sample(1).error().code == base::errc::corrupt);
    CHECK(run.book->live_groups().error().code == base::errc::corrupt);
  }
  must(run.db->execute("UPDATE samples SET segments = '[]', tokens_hash = 'x'"));
  CHECK(run.book->sample(1).error().code == base::errc::corrupt);
  must(run.db->execute("DROP TRIGGER groups_keep; UPDATE groups SET exemplars = '[1,null]'"));
  CHECK(run.book->group(1).error().code == base::errc::corrupt);
}

TEST_CASE("the audit sees a history that was forged") {
  open_ledger run;
  run.group_in(sample_state::evaluated, 3);
  must(run.db->commit());
  must(run.book->audit());
  SUBCASE("an event is gone") {
    must(run.db->execute("DROP TRIGGER events_stay; DELETE FROM events WHERE seq = 5"));
    CHECK(run.book->audit().error().code == base::errc::corrupt);
  }
  SUBCASE("a state was changed without an event") {
    must(
        run.db->execute("DROP TRIGGER samples_step; UPDATE samples SET state = 'generated' "
                        "WHERE id = 2"));
    CHECK(run.book->audit().error().code == base::errc::corrupt);
  }
  SUBCASE("a sample was born twice") {
    must(run.db->execute("INSERT INTO events VALUES (99, 1, NULL, 'issued', 1, 0)"));
    CHECK(run.book->audit().error().code == base::errc::corrupt);
  }
  SUBCASE("a step back outside the opening of an incarnation") {
    must(
        run.db->execute("INSERT INTO events VALUES (98, 1, 'evaluated', 'issued', 1, 0);"
                        "INSERT INTO events VALUES (99, 1, 'issued', 'generated', 1, 0)"));
    CHECK(run.book->audit().error().code == base::errc::corrupt);
  }
}

}  // namespace
}  // namespace quern::test
