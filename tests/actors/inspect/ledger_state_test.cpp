// What the ledger says of all samples, in words.
#include "actors/inspect/ledger_state.hpp"

#include "support/written_run.hpp"

using namespace quern;
using namespace quern::actors;
using test::contains;

TEST_CASE("every sample is accounted for, or it is said loudly that it is not") {
  ledger_state state;
  CHECK(account_words(state) == "No sample was issued yet.");
  const auto at = [&](storage::sample_state one) -> std::int64_t& {
    return state.counts.by_state[static_cast<std::size_t>(one)];
  };
  state.counts.issued_ever = 1;
  at(storage::sample_state::generated) = 1;
  CHECK(account_words(state) ==
        "1 sample issued: 0 trained, 0 dropped, 1 in flight. Every sample is accounted for.");
  state.counts.issued_ever = 10;
  at(storage::sample_state::trained) = 6;
  at(storage::sample_state::dropped) = 3;
  CHECK(contains(account_words(state), "Every sample is accounted for."));
  state.counts.issued_ever = 11;
  CHECK(contains(account_words(state),
                 "NOT EVERY SAMPLE IS ACCOUNTED FOR: 11 were issued, 10 are in run.db."));
  CHECK(to_json(state)["law_holds"] == false);
}

TEST_CASE("drops, counts and staleness are said with the most first, and in words") {
  CHECK(drop_lines({}).empty());
  CHECK(drop_lines({{"stale", 1}, {"noisy", 5}, {"of_a_later_build", 2}}) ==
        "  5 noisy: no attempt could measure it well enough\n"
        "  2 of_a_later_build\n"
        "  1 stale: its tokens were older than actors.staleness allows for the next step\n");
  CHECK(count_words({{"ok", 3}, {"wrong_value", 9}, {"oom", 0}}) == "9 wrong_value, 3 ok");
  CHECK(count_words({}).empty());
  CHECK(staleness_words({}).empty());
  storage::age_counts ages;
  ages.by_age = {{0, 4}, {1, 3}, {2, 1}};
  CHECK(staleness_words(ages) ==
        "Samples when a step used them: 4 of the newest weights, 3 that were 1 step behind, 1 that "
        "were 2 steps behind. None had tokens of several versions.");
  for (std::int64_t age = 3; age < 1000; ++age)
    ages.by_age[age] = 2;
  CHECK(contains(staleness_words(ages),
                 "2 that were 5 steps behind, 1988 that were 6 to 999 steps behind. None"));
  ages.mixed = 2;
  CHECK(contains(staleness_words(ages), ". 2 had tokens of several versions."));
}

TEST_CASE("a run without a ledger is all zero; one whose ledger is gone is an error") {
  const base::temp_folder folder = std::move(base::temp_folder::make("state").value());
  test::written_run run(folder.path() / "run");
  const storage::run_paths paths{run.folder()};
  const auto empty = read_ledger_state(paths);
  REQUIRE(empty);
  CHECK(empty->counts.issued_ever == 0);
  CHECK(to_json(*empty)["checkpoint"] == -1);
  run.open().write_two_steps();
  const auto whole = read_ledger_state(paths);
  REQUIRE(whole);
  CHECK(whole->counts.issued_ever == 7);
  CHECK(whole->counts.in_flight() == 4);
  CHECK(whole->drop_reasons == std::map<std::string, std::int64_t>{{"stale", 1}});
  CHECK(whole->ages.by_age == std::map<std::int64_t, std::int64_t>{{0, 3}, {1, 1}});
  CHECK(to_json(*whole)["samples"]["consumed"] == 2);
  run.close();
  REQUIRE(std::filesystem::remove(paths.database()));
  const auto gone = read_ledger_state(paths);
  REQUIRE_FALSE(gone);
  CHECK(contains(gone.error().message, "put its run.db back"));
}
