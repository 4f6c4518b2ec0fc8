// A run whose learner has two ranks: one is killed, one is frozen, and nobody is asked.
#include <fmt/format.h>
#include <signal.h>

#include "base/file.hpp"
#include "base/subprocess.hpp"
#include "e2e/run_fixture.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::test;
namespace fs = std::filesystem;
using base::operator""_s;

TEST_CASE(
    "two learner ranks: a dead and a frozen one cost the steps since the checkpoint, and one rank "
    "goes on from the shards of two") {
  const auto folder = base::temp_folder::make().value();
  const fs::path run = folder.path() / "run";
  // Enough that the run is not over before the test has looked for the next one to be hit.
  constexpr std::int64_t steps = 10;
  auto control = base::subprocess::start(
      {.argv = train_command(run, steps,
                             {"learner.ranks=2", "learner.rank_deadline_s=2", "observe.panel=false",
                              "env.protocol=cost_model/1", "storage.checkpoint_every_steps=1"}),
       .log = folder.path() / "log"});
  REQUIRE(control);
  const auto ranks = [&](const std::vector<std::string>& words) {
    std::vector<std::string> all = {"quern-torch", "learner", run.string()};
    all.insert(all.end(), words.begin(), words.end());
    return find_processes(all);
  };
  const auto over = [&] { return control->poll().has_value(); };
  // Once the group has made a checkpoint: killed while the other rank waits for it or computes.
  REQUIRE(wait_until(120_s, [&] { return over() || version_of(run) >= 1; }));
  REQUIRE_FALSE(over());
  CHECK(ranks({}).size() == 2);
  // Arguments lie side by side with a zero byte between.
  const std::string rank_one = std::string("--rank") + '\0' + "1";
  const auto second = ranks({rank_one});
  REQUIRE(second.size() == 1);
  REQUIRE(::kill(second.front(), SIGKILL) == 0);
  // A checkpoint may have been on its way: the next one is of those that were started again.
  const std::int64_t before = version_of(run);
  std::vector<pid_t> frozen;
  REQUIRE(wait_until(120_s, [&] {
    frozen = ranks({rank_one});
    return over() || (version_of(run) > before && frozen.size() == 1 && frozen != second);
  }));
  REQUIRE_FALSE(over());
  CHECK(frozen != second);
  REQUIRE(::kill(frozen.front(), SIGSTOP) == 0);
  const auto end = control->wait(300_s);
  CAPTURE(base::read_file(folder.path() / "log").value_or(""));
  REQUIRE(end);
  CHECK(end->code == 0);
  check_law(run);
  CHECK(version_of(run) == steps);
  // The shards of both ranks lie in the checkpoint, with their manifest.
  const fs::path optimizer = run / "checkpoints" / fmt::format("v{:08}", steps) / "optimizer";
  for (const char* file :
       {"manifest.json", "shard-000-of-002.safetensors", "shard-001-of-002.safetensors"})
    CHECK(fs::exists(optimizer / file));
  const std::string said = base::read_file(folder.path() / "log").value_or("");
  CHECK(contains(said, "rank 1 of the learner is gone"));
  // Another number of ranks goes on from them.
  const auto resumed =
      run_to_end({program("quern"), "resume", run.string(), "--set", "learner.ranks=1", "--set",
                  "learner.devices=", "--set", fmt::format("learner.steps={}", steps + 1)},
                 folder.path() / "resumed");
  CAPTURE(resumed.output);
  CHECK(resumed.code == 0);
  CHECK(version_of(run) == steps + 1);
}
