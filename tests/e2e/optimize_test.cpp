// quern optimize as a person types it: interrupted and gone on with, compared with independent
// samples, and refused where it cannot be.
#include <algorithm>
#include <csignal>
#include <set>
#include <string_view>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/subprocess.hpp"
#include "e2e/run_fixture.hpp"
#include "storage/ledger.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::test;
namespace fs = std::filesystem;
using base::operator""_s;

namespace {

constexpr const char* optimized = "relu_centre_square";  // of env/suites/cpu_quick

struct optimize_fixture {
  base::temp_folder folder = std::move(base::temp_folder::make().value());
  fs::path run = folder.path() / "run";
  int logs = 0;

  static std::vector<std::string> command(const fs::path& into, std::vector<std::string> more) {
    std::vector<std::string> argv = {program("quern"), "optimize", optimized, "--group", "4",
                                     "--best-effort", "--run", into.string(),
                                     // The cost model replaces the time alone.
                                     "--set", "env.protocol=cost_model/1"};
    argv.insert(argv.end(), more.begin(), more.end());
    return argv;
  }
  finished go(const fs::path& into, std::vector<std::string> more) {
    return run_to_end(command(into, std::move(more)),
                      folder.path() / ("log" + std::to_string(logs++)));
  }
  void refused(std::vector<std::string> words, std::initializer_list<std::string_view> parts) {
    words.insert(words.begin(), {program("quern"), "optimize"});
    const finished end = run_to_end(words, folder.path() / ("log" + std::to_string(logs++)));
    CAPTURE(end.output);
    CHECK(end.code == 2);
    for (const std::string_view part : parts)
      CHECK(contains(end.output, part));
  }
};

base::json json_in(const fs::path& file) {
  const auto text = base::read_file(file);
  REQUIRE_MESSAGE(text, file.string());
  auto read = base::parse_json(*text);
  REQUIRE(read);
  return *read;
}

/// Groups of a run whose prompts showed kernels.
int groups_with_exemplars(const fs::path& run) {
  const auto db = storage::database::open(run / "run.db", storage::database::access::read);
  REQUIRE(db);
  const auto ledger = storage::ledger::open(**db);
  REQUIRE(ledger);
  const auto dropped = (*ledger)->in_state(storage::sample_state::dropped);
  REQUIRE(dropped);
  std::set<std::int64_t> groups;
  for (const auto& sample : *dropped)
    groups.insert(sample.group);
  int shown = 0;
  for (const std::int64_t group : groups)
    shown += (*ledger)->group(group)->exemplars.empty() ? 0 : 1;
  return shown;
}

}  // namespace

TEST_CASE("quern optimize is interrupted, goes on, and keeps its best with verdict and lineage") {
  optimize_fixture f;
  auto first =
      base::subprocess::start({.argv = optimize_fixture::command(f.run, {"--budget", "30"}),
                               .log = f.folder.path() / "first"});
  REQUIRE(first);
  CHECK(wait_until(300_s, [&] {
    return counts_of(f.run).of(storage::sample_state::dropped) >= 8 || first->poll();
  }));
  REQUIRE_FALSE(first->poll());
  first->send_signal(SIGINT);
  const auto paused = first->wait(60_s);
  REQUIRE(paused);
  CHECK(paused->code == 3);
  CHECK_FALSE(fs::exists(f.run / "optimize.json"));

  const finished end = f.go(f.run, {"--budget", "30", "--explain"});
  CAPTURE(end.output);
  REQUIRE(end.code == 0);
  CHECK(contains(end.output, "30/30"));
  CHECK(contains(end.output, "measured again in fresh processes"));
  CHECK(contains(end.output, "variants that its prompt showed"));
  const base::json summary = json_in(f.run / "optimize.json");
  CHECK(summary["spent"] == 30);
  CHECK(summary["budget"] == 30);
  const base::json chain = json_in(f.run / "best.lineage.json");
  CHECK(chain["best"] == summary["best"]["variant"]);
  CHECK(chain["variants"].back()["source"] == base::read_file(f.run / "best.cpp").value());
  const base::json verdict = json_in(f.run / "best.verdict.json");
  CHECK(verdict["verdict"] == "ok");
  CHECK(verdict["speedup_e2"] == summary["best"]["again"]["speedup_e2"]);
  // The cost model is a function of task and source, so that both measurements agree.
  CHECK(summary["best"]["found"]["speedup_e2"] == summary["best"]["again"]["speedup_e2"]);
  CHECK(groups_with_exemplars(f.run) > 0);
  CHECK(counts_of(f.run).law_holds());
  CHECK(counts_of(f.run).in_flight() == 0);

  // The same words again find it done, and measure nothing.
  const auto written = fs::last_write_time(f.run / "run.db");
  const finished again = f.go(f.run, {"--budget", "30"});
  CHECK(again.code == 0);
  CHECK(contains(again.output, "best of 30 evaluations"));
  CHECK(fs::last_write_time(f.run / "run.db") == written);
  // A measurement of the best that was noise is made again, by the same words.
  base::json noisy = verdict;
  noisy["verdict"] = "noisy";
  noisy.erase("speedup_e2");
  REQUIRE(base::write_file_atomic(f.run / "best.verdict.json", noisy.dump()));
  CHECK(f.go(f.run, {"--budget", "30"}).code == 0);
  CHECK(json_in(f.run / "best.verdict.json")["verdict"] == "ok");
  CHECK(json_in(f.run / "optimize.json")["best"] == summary["best"]);
  // Another search is not this one.
  for (const auto& other : {std::vector<std::string>{"--budget", "30", "--seed", "2"},
                            std::vector<std::string>{"--budget", "30", "--independent"}}) {
    const finished refused = f.go(f.run, other);
    CAPTURE(refused.output);
    CHECK(refused.code == 2);
    CHECK(contains(refused.output, "name another --run"));
  }
}

TEST_CASE("independent samples are shown nothing") {
  optimize_fixture f;
  const finished end = f.go(f.run, {"--budget", "16", "--independent"});
  CAPTURE(end.output);
  CHECK(end.code == 0);
  CHECK(json_in(f.run / "optimize.json")["exemplars"] == "none");
  CHECK(json_in(f.run / "optimize.json")["spent"] == 16);
  CHECK(groups_with_exemplars(f.run) == 0);
}

TEST_CASE("what the search does not tell apart is measured again, and what is kept is not") {
  optimize_fixture f;
  // Times of a shared machine: nothing here is about how fast a kernel is.
  const std::vector<std::string> words = {
      "--budget", "16", "--set", "env.protocol=paired/1", "--set", "env.noise_limit=0.5"};
  const finished end = f.go(f.run, words);
  CAPTURE(end.output);
  REQUIRE(end.code == 0);
  const base::json best = json_in(f.run / "optimize.json")["best"];
  REQUIRE(best.is_object());
  const auto& finalists = best["finalists"];
  CHECK(std::ranges::find(finalists, best["variant"]) != finalists.end());
  constexpr std::string_view chosen_by = "fastest apart; measured again:";
  CHECK(contains(end.output, chosen_by) == (finalists.size() > 1));

  // Measured anew it would have other times. One that was noisy is, so a busy machine tries again.
  const fs::path file = f.run / "best.verdict.json";
  for (int more = 0; more < 3 && json_in(file)["verdict"] == "noisy"; ++more)
    CHECK(f.go(f.run, words).code == 0);
  const base::json verdict = json_in(file);
  const finished again = f.go(f.run, words);
  CHECK(again.code == 0);
  CHECK_FALSE(contains(again.output, chosen_by));
  CHECK(json_in(file) == verdict);
  // A verdict of another kernel, as a call that was cut off may leave it, says nothing of this one.
  base::json other = verdict;
  other["source"] = std::string(32, '0');
  REQUIRE(base::write_file_atomic(file, other.dump()));
  CHECK(f.go(f.run, words).code == 0);
  CHECK(json_in(file)["time"] != verdict["time"]);
}

TEST_CASE("quern optimize refuses what it cannot search, with the value and what to do") {
  optimize_fixture f;
  const std::string run = f.run.string();
  f.refused({"no_such_task", "--run", run}, {"'no_such_task'", "shipped tasks"});
  f.refused({"relu_centre_squar", "--run", run}, {"did you mean 'relu_centre_square'"});
  f.refused({"softmax_rows", "--run", run}, {"cpu/softmax_rows", "cuda_quick/softmax_rows"});
  f.refused({optimized, "--run", run, "--budget", "7"}, {"--budget is 7", "8 samples", "--group"});
  f.refused({optimized, "--run", run, "--budget", "0"}, {"--budget"});
  f.refused({optimized, "--run", run, "--policy", "/nowhere"},
            {"--policy /nowhere", "policy/demo"});
  f.refused({optimized, "--run", run, "--set", "learner.stepz=3"}, {"learner.stepz"});
  f.refused({optimized, "--run", run, "--set", "run.budget_evaluations=99"},
            {"--set run.budget_evaluations=99: say it by --budget"});
  f.refused({optimized, "--run", "/etc/passwd"}, {"quern optimize: --run: /etc/passwd is there"});
  CHECK_FALSE(fs::exists(f.run));
}
