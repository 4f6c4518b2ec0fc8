// A run that a build of schema 1 left goes on with this build.
#include "base/json.hpp"
#include "e2e/run_fixture.hpp"
#include "support/schema1_run.hpp"

using namespace quern;
using namespace quern::test;
namespace fs = std::filesystem;

TEST_CASE("a run of schema 1 is resumed: its ledger is brought over once, and a copy stays") {
  auto folder = base::temp_folder::make();
  REQUIRE(folder);
  const fs::path run = folder->path() / "run";
  const finished trained = run_to_end(
      train_command(run, 1,
                    {"observe.evaluation_set_train=2", "observe.evaluation_set_held_out=1",
                     "env.protocol=cost_model/1", "storage.checkpoint_every_steps=1"}),
      folder->path() / "train");
  CAPTURE(trained.output);
  REQUIRE(trained.code == 0);
  make_schema1(run);
  // All steps are done: nothing is changed for that.
  const finished idle =
      run_to_end({program("quern"), "resume", run.string()}, folder->path() / "idle");
  CAPTURE(idle.output);
  CHECK(idle.code == 4);
  CHECK(contains(idle.output, "is of schema 1 and stays so: the run is complete"));
  CHECK_FALSE(fs::exists(run / "run.db.schema1"));
  CHECK(fs::exists(run / "panel.json"));

  const finished resumed =
      run_to_end({program("quern"), "resume", run.string(), "--set", "learner.steps=2"},
                 folder->path() / "resume");
  CAPTURE(resumed.output);
  REQUIRE(resumed.code == 0);
  CHECK(
      contains(resumed.output, "was of schema 1 and has schema 2 now; a copy of it as it was is " +
                                   (run / "run.db.schema1").string()));
  CHECK(version_of(run) == 2);
  check_law(run);
  const std::string config = base::read_file(run / "config.yaml").value();
  CHECK(contains(config, "quern_config: 2"));
  CHECK(contains(config, "evaluation_set_train: 2"));
  CHECK_FALSE(contains(config, "panel"));
  // Lines of the earlier build stay; new ones have the present names.
  const auto lines = whole_lines_of(run / "metrics.jsonl");
  REQUIRE(lines.size() == 2);
  CHECK(contains(lines[0], "\"epoch\":1"));
  CHECK(contains(lines[1], "\"incarnation\":2"));
  // The comparison was of other weights: it is made anew, under its present name.
  CHECK_FALSE(fs::exists(run / "panel.json"));
  CHECK(contains(base::read_file(run / "evaluation_set.json").value(), "quern_evaluation_set"));
  CHECK(contains(base::read_file(run / "report.txt").value(), "mean reward, held out"));
}
