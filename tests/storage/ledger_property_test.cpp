// Random operations, legal and not, against a plain model of the law; every pair of states by hand.
#include "base/random.hpp"
#include "law_model.hpp"
#include "ledger_support.hpp"

namespace quern::test {
namespace {

using namespace quern::storage;

std::string name_of(const base::expected<arrived>& result) {
  if (!result) return "error";
  if (result->outcome == arrival::accepted) return "accepted";
  return result->outcome == arrival::late ? "late" : "stale";
}

/// Plays random operations on a ledger and on the model, and compares every answer.
class player {
 public:
  explicit player(std::uint64_t seed)
      : random_(seed, "ledger property"),
        db_(must(database::in_memory(nullptr, static_cast<int>(random_.between(1, 64))))),
        book_(must(ledger::open(*db_))) {
    must(book_->open_incarnation({"start", 0, {}}));
    model_.open_incarnation(0, {});
  }

  void play(int operations) {
    for (int i = 0; i < operations; ++i) {
      one();
      if (i % 40 == 0) compare();
    }
    compare();
    must(book_->audit());
  }

  std::map<std::string, int> answers;

 private:
  std::int64_t any_id() {
    return random_.between(0, static_cast<std::int64_t>(model_.samples.size()) + 1);
  }

  /// Mostly ids in `state`, so that deep states are reached; sometimes anything.
  std::vector<std::int64_t> ids_in(const std::string& state) {
    std::vector<std::int64_t> ids;
    const auto wanted = random_.between(0, 4);
    for (const auto& [id, sample] : model_.samples) {
      if (std::ssize(ids) < wanted && sample.state == state && random_.chance(0.7)) {
        ids.push_back(id);
      }
    }
    if (random_.chance(0.1)) ids.push_back(any_id());
    if (random_.chance(0.05) && !ids.empty()) ids.push_back(ids.front());
    return ids;
  }

  std::int64_t id_in(const std::string& state) {
    const auto ids = ids_in(state);
    return ids.empty() ? any_id() : ids.back();
  }

  std::int64_t about_incarnation() {
    return random_.chance(0.9) ? model_.incarnation : random_.between(0, model_.incarnation + 1);
  }

  void expect(const std::string& what, const std::string& got, const std::string& wanted) {
    ++answers[what + " " + wanted];
    if (got != wanted) FAIL(what << ": the ledger said " << got << ", the model " << wanted);
  }
  void expect(const std::string& what, bool got, bool wanted) {
    expect(what, std::string(got ? "ok" : "error"), std::string(wanted ? "ok" : "error"));
  }

  void one() {
    switch (random_.below(12)) {
      case 0:
        return issue();
      case 1:
      case 2:
      case 3:
        return generate();
      case 4:
      case 5:
      case 6:
        return evaluate();
      case 7:
      case 8: {
        std::vector<admission> list;
        const auto ids = ids_in("evaluated");
        for (const std::int64_t id : ids)
          list.push_back({id, random_.uniform()});
        return expect("admit", book_->admit(list).has_value(), model_.admit(ids));
      }
      case 9: {
        const auto ids = ids_in("admitted");
        const std::int64_t step = model_.version + (random_.chance(0.9) ? 1 : 2);
        return expect("consume", book_->consume(ids, step).has_value(), model_.consume(ids, step));
      }
      case 10: {
        if (random_.chance(0.5)) return turn();
        const auto ids = ids_in(random_.chance(0.8) ? "generated" : "consumed");
        return expect("drop", book_->drop(ids, "stale").has_value(), model_.drop(ids));
      }
      default:
        return must(book_->commit());
    }
  }

  void issue() {
    const auto size = static_cast<int>(random_.between(1, 5));
    const auto issued = must(book_->issue(group_of(next_seq_++, size)));
    CHECK(issued.first_sample == static_cast<std::int64_t>(model_.samples.size()) + 1);
    model_.issue(issued.first_sample, size);
  }

  void generate() {
    const std::int64_t id = id_in("issued");
    const std::int64_t incarnation = about_incarnation();
    // Now and then by weights that no step has made: consuming it must be refused.
    const std::int64_t newest =
        random_.chance(0.05) ? model_.version + 2 : random_.between(0, model_.version);
    const auto oldest = random_.between(std::max<std::int64_t>(0, newest - 2), newest);
    expect("generated", name_of(book_->generated(tokens_of(id, incarnation, oldest, newest))),
           model_.generated(id, incarnation, newest));
  }

  void evaluate() {
    const std::int64_t id = id_in("generated");
    const std::int64_t incarnation = about_incarnation();
    const auto attempt = random_.between(1, 3);
    const bool counts = random_.chance(0.8);
    expect("evaluated", name_of(book_->evaluated(verdict_of(id, incarnation, attempt, counts))),
           model_.evaluated(id, incarnation, attempt, counts));
  }

  void turn() {
    if (random_.chance(0.6)) {
      const std::int64_t version = random_.between(0, model_.version + 1);
      const auto done = book_->record_checkpoint({version, 0, "c", {}});
      return expect("checkpoint", done.has_value(), model_.checkpoint(version));
    }
    const std::int64_t newest = model_.checkpoints.empty() ? 0 : model_.checkpoints.back();
    const std::int64_t from = random_.chance(0.6) ? newest : random_.between(0, model_.version + 1);
    std::set<std::int64_t> gone;
    for (int i = 0; i < 2; ++i)
      gone.insert(any_id());
    const auto done =
        book_->open_incarnation({"crash", from, [&](std::int64_t sample, const base::hash128&) {
                                   return !gone.contains(sample);
                                 }});
    expect("incarnation", done.has_value(), model_.open_incarnation(from, gone));
  }

  void compare() {
    const auto counts = must(book_->counts());
    CHECK(counts.law_holds());
    CHECK(counts.issued_ever == static_cast<std::int64_t>(model_.samples.size()));
    const auto here = must(book_->position());
    CHECK(here.incarnation == model_.incarnation);
    CHECK(here.version == model_.version);
    CHECK(here.checkpoint.has_value() == !model_.checkpoints.empty());
    if (here.checkpoint) CHECK(here.checkpoint->version == model_.checkpoints.back());
    std::size_t seen = 0;
    for (const sample_state state : all_sample_states) {
      for (const sample_row& row : must(book_->in_state(state))) {
        ++seen;
        const model_sample& wanted = model_.samples.at(row.id);
        if (to_string(state) != wanted.state) {
          FAIL("sample " << row.id << " is " << to_string(state) << ", the model " << wanted.state);
        }
        if (row.v_max) CHECK(*row.v_max == wanted.v_max);
        if (row.step) CHECK(*row.step == wanted.step);
      }
    }
    CHECK(seen == model_.samples.size());
  }

  base::random_stream random_;
  std::unique_ptr<database> db_;
  std::unique_ptr<ledger> book_;
  law_model model_;
  std::int64_t next_seq_ = 0;
};

TEST_CASE("random operations, legal and not, change the ledger exactly as the law says") {
  std::map<std::string, int> answers;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    player game(seed);
    game.play(400);
    for (const auto& [what, count] : game.answers)
      answers[what] += count;
  }
  // The walk must have met every kind of answer, or it has proven little.
  for (const char* what :
       {"generated accepted", "generated late", "generated stale", "generated error",
        "evaluated accepted", "evaluated late", "evaluated stale", "evaluated error", "admit ok",
        "admit error", "consume ok", "consume error", "drop ok", "drop error", "checkpoint ok",
        "checkpoint error", "incarnation ok", "incarnation error"}) {
    CHECK_MESSAGE(answers[what] >= 20, what << ": " << answers[what]);
  }
}

/// Columns that a row needs in `state`, so that only the pair of states decides.
std::string columns_for(sample_state state) {
  const bool born = state == sample_state::issued;
  const bool used = state == sample_state::consumed || state == sample_state::trained;
  std::string sql = born ? "v_min = NULL, v_max = NULL, segments = NULL, tokens_hash = NULL, "
                           "source_hash = NULL, verdict_id = NULL, reward = NULL"
                         : "v_min = 0, v_max = 0, segments = '[]', tokens_hash = 'x', "
                           "verdict_id = 1, reward = 1.0";
  sql += used ? ", step = 1" : ", step = NULL";
  sql += state == sample_state::dropped ? ", drop_reason = 'x'" : ", drop_reason = NULL";
  return sql;
}

/// A ledger with a checkpoint of version 1, and a sample in `state`.
std::int64_t prepare(open_ledger& run, sample_state state) {
  must(run.book->consume(run.group_in(sample_state::admitted, 1), 1));
  std::int64_t id = 1;  // consumed by step 1
  if (state != sample_state::consumed) must(run.book->record_checkpoint({1, 0, "x", {}}));
  if (state < sample_state::consumed) id = run.group_in(state, 1)[0];
  if (state == sample_state::dropped) {
    id = run.group_in(sample_state::issued, 1)[0];
    must(run.book->drop({&id, 1}, "x"));
  }
  if (state == sample_state::consumed) {
    // The checkpoint's row alone, so that trained becomes possible.
    must(run.book->commit());
    must(run.db->execute("INSERT INTO checkpoints VALUES (1, 1, 'x', 'y', 0)"));
  }
  must(run.book->commit());
  REQUIRE(must(run.book->sample(id)).state == state);
  return id;
}

TEST_CASE(
    "of all 49 pairs of states exactly the legal ones pass, backward ones in an opening only") {
  for (const sample_state from : all_sample_states) {
    for (const sample_state to : all_sample_states) {
      CAPTURE(std::string(to_string(from)));
      CAPTURE(std::string(to_string(to)));
      open_ledger run;
      const std::int64_t id = prepare(run, from);
      const std::string update = fmt::format("UPDATE samples SET state = '{}', {} WHERE id = {};",
                                             to_string(to), columns_for(to), id);
      const step_kind kind = step_between(from, to);
      must(run.db->execute("BEGIN"));
      const bool plain = run.db->execute(update.c_str()).has_value();
      must(run.db->execute("ROLLBACK"));
      CHECK(plain == (kind == step_kind::forward));
      must(run.db->execute("BEGIN; INSERT INTO incarnations VALUES (2, 0, 'x', 0, 1)"));
      const bool opening = run.db->execute(update.c_str()).has_value();
      must(run.db->execute("ROLLBACK"));
      // A checkpoint of the new incarnation would be needed to train in it.
      const bool trains = to == sample_state::trained;
      CHECK(opening == (kind != step_kind::illegal && !trains));
    }
  }
}

TEST_CASE("the table of pairs is the life of a sample as it is documented") {
  using enum sample_state;
  const std::vector<std::pair<sample_state, sample_state>> forward = {
      {issued, generated},  {generated, evaluated}, {evaluated, admitted},
      {admitted, consumed}, {consumed, trained},    {issued, dropped},
      {generated, dropped}, {evaluated, dropped},   {admitted, dropped}};
  const std::vector<std::pair<sample_state, sample_state>> backward = {
      {generated, issued}, {evaluated, issued},  {admitted, issued}, {consumed, issued},
      {trained, issued},   {consumed, admitted}, {trained, admitted}};
  for (const sample_state from : all_sample_states) {
    for (const sample_state to : all_sample_states) {
      const std::pair pair(from, to);
      const auto in = [&](const auto& list) {
        return std::find(list.begin(), list.end(), pair) != list.end();
      };
      const step_kind wanted = in(forward)    ? step_kind::forward
                               : in(backward) ? step_kind::backward
                                              : step_kind::illegal;
      CHECK(step_between(from, to) == wanted);
    }
  }
}

}  // namespace
}  // namespace quern::test
