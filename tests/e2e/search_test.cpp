// A search with real processes: stopped in three ways, it goes on and loses nothing.
#include <csignal>
#include <set>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/subprocess.hpp"
#include "e2e/run_fixture.hpp"
#include "storage/jsonl.hpp"
#include "storage/ledger.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::test;
namespace fs = std::filesystem;
using base::operator""_s;

namespace {

constexpr std::int64_t searched_budget = 22;  // five groups of 4 and one of 2

std::int64_t judged_in(const fs::path& run) {
  const auto db = storage::database::open(run / "run.db", storage::database::access::read);
  if (!db) return 0;
  const auto ledger = storage::ledger::open(**db);
  return ledger ? (*ledger)->judged().value_or(0) : 0;
}

/// Starts the command and waits until `judged` samples of the run are; null: it ended before.
std::optional<base::subprocess> until_judged(const std::vector<std::string>& argv,
                                             const fs::path& run, std::int64_t judged,
                                             const fs::path& log) {
  auto control = base::subprocess::start({.argv = argv, .log = log});
  REQUIRE(control);
  CHECK(wait_until(300_s, [&] { return judged_in(run) >= judged || control->poll(); }));
  CAPTURE(base::read_file(log).value_or(""));
  REQUIRE_FALSE(control->poll());
  return std::move(*control);
}

/// Every sample of the ledger, with what became of it.
std::map<std::int64_t, storage::sample_row> samples_of(const fs::path& run) {
  std::map<std::int64_t, storage::sample_row> all;
  const auto db = storage::database::open(run / "run.db", storage::database::access::read);
  REQUIRE(db);
  const auto ledger = storage::ledger::open(**db);
  REQUIRE(ledger);
  CHECK((*ledger)->audit());
  const auto dropped = (*ledger)->in_state(storage::sample_state::dropped);
  REQUIRE(dropped);
  for (const auto& row : *dropped)
    all.emplace(row.id, row);
  return all;
}

}  // namespace

TEST_CASE("a search without a learner is killed, paused and resumed, and spends its budget once") {
  auto folder = base::temp_folder::make();
  REQUIRE(folder);
  const fs::path& at = folder->path();
  const fs::path run = at / "run";
  const auto begin = train_command(
      run, 1,
      {"stage=search", "observe.evaluation_set=false", "tasks.count=1", "tasks.held_out_count=0",
       "run.budget_evaluations=" + std::to_string(searched_budget), "env.protocol=cost_model/1",
       "algorithm.groups_per_step=1", "actors.staleness=0", "replay.seed_variants=0"});
  const std::vector<std::string> resume = {program("quern"), "resume", run.string()};
  auto killed = until_judged(begin, run, 5, at / "killed");
  killed->send_signal(SIGKILL);
  REQUIRE(killed->wait(10_s));
  const std::int64_t before = judged_in(run);
  CHECK(before < searched_budget);

  auto interrupted = until_judged(resume, run, before + 5, at / "paused");
  const finished order = run_to_end({program("quern"), "pause", run.string()}, at / "pause.log");
  CHECK(order.code == 0);
  const auto paused = interrupted->wait(60_s);
  REQUIRE(paused);
  CHECK(paused->code == 3);
  const std::int64_t kept = judged_in(run);
  CHECK(kept >= before + 5);
  CHECK(kept < searched_budget);
  const finished told = run_to_end({program("quern"), "status", run.string()}, at / "status");
  CAPTURE(told.output);
  CHECK(contains(told.output, std::to_string(kept) + " of 22 evaluations"));
  CHECK_FALSE(contains(told.output, "    learner"));

  const finished end = run_to_end(resume, at / "end");
  CAPTURE(end.output);
  CHECK(end.code == 0);
  CHECK(contains(end.output, "22/22"));
  const auto counts = counts_of(run);
  CHECK(counts.law_holds());
  CHECK(counts.in_flight() == 0);
  CHECK(counts.of(storage::sample_state::trained) == 0);
  // Nothing was made twice, nothing is missing: as many samples as evaluations.
  const auto samples = samples_of(run);
  CHECK(samples.size() == searched_budget);
  CHECK(judged_in(run) == searched_budget);
  for (const auto& [id, sample] : samples) {
    CAPTURE(id);
    CHECK(sample.drop_reason == "no_learner");
    CHECK(sample.reward.has_value());
  }
  CHECK_FALSE(fs::exists(run / "logs/learner.log"));
  CHECK(fs::exists(run / "logs/generator.log"));
  std::set<std::int64_t> rows;
  REQUIRE(storage::read_jsonl(run / "metrics.jsonl", [&](const base::json& line) -> base::status {
    rows.insert(line["spent"].get<std::int64_t>());
    CHECK_FALSE(line["roles"].contains("learner"));
    return {};
  }));
  CHECK(rows.contains(searched_budget));

  CHECK(run_to_end(resume, at / "again").code == 4);
  // A larger budget is a search that goes on.
  auto more = resume;
  more.insert(more.end(), {"--set", "run.budget_evaluations=24"});
  CHECK(run_to_end(more, at / "more").code == 0);
  CHECK(judged_in(run) == 24);
}
