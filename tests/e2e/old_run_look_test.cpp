// Runs and configurations of earlier builds: commands that read take a run of schema 1 as it is,
// and `quern config upgrade` rewrites a file.
#include "base/json.hpp"
#include "e2e/run_fixture.hpp"
#include "support/schema1_run.hpp"
#include "support/written_run.hpp"

using namespace quern;
using namespace quern::test;
namespace fs = std::filesystem;

namespace {

struct commands {
  base::temp_folder folder = std::move(base::temp_folder::make("old").value());
  int logs = 0;
  finished run(std::vector<std::string> words) {
    words.insert(words.begin(), program("quern"));
    return run_to_end(std::move(words), folder.path() / ("log" + std::to_string(logs++)));
  }
};

}  // namespace

TEST_CASE("what reads a run tells the same of schema 1, and changes nothing in it") {
  commands f;
  const fs::path path = f.folder.path() / "run";
  written_run run(path, "contrastive",
                  "learner: {steps: 5}\nobserve: {evaluation_set_train: 17}\n");
  run.open().write_two_steps();
  run.next_incarnation("resume", 1);
  run.close();
  const std::vector<std::vector<std::string>> asked = {
      {"status", path.string()},         {"status", path.string(), "--json"},
      {"show", path.string()},           {"show", path.string(), "3", "--json"},
      {"why", path.string(), "3"},       {"why", path.string(), "3", "--json"},
      {"explain", "loss", path.string()}};
  std::vector<std::string> told;
  for (const auto& words : asked) {
    const finished end = f.run(words);
    CAPTURE(end.output);
    CHECK(end.code == 0);
    told.push_back(end.output);
  }
  CHECK(contains(told[1], "\"incarnation\":2"));
  CHECK(contains(told[4], "incarnation 2"));
  make_schema1(path);
  const std::string before = base::read_file(path / "run.db").value();
  const std::string config = base::read_file(path / "config.yaml").value();
  REQUIRE(contains(config, "panel_train: 17"));
  for (std::size_t i = 0; i < asked.size(); ++i) {
    CAPTURE(asked[i].front());
    const finished end = f.run(asked[i]);
    CHECK(end.code == 0);
    CHECK(end.output == told[i]);
  }
  const finished report = f.run({"report", path.string()});
  CAPTURE(report.output);
  CHECK(report.code == 0);
  CHECK(contains(report.output, "Every sample is accounted for."));
  CHECK(base::read_file(path / "run.db").value() == before);
  CHECK(base::read_file(path / "config.yaml").value() == config);
  CHECK_FALSE(fs::exists(path / "run.db.schema1"));
}

TEST_CASE("a complete run of schema 1 stays so, and a resume says that") {
  commands f;
  const fs::path path = f.folder.path() / "run";
  written_run run(path, "contrastive", "learner: {steps: 1}\nobserve: {evaluation_set: false}\n");
  run.open().write_two_steps();
  run.close();
  REQUIRE(base::write_file_atomic(path / "report.txt", "made before\n"));
  const auto resumed = [&] {
    const finished end = f.run({"resume", path.string()});
    CAPTURE(end.output);
    CHECK(end.code == 4);
    CHECK(contains(end.output, "all 1 steps are done"));
    return end.output;
  };
  // The control: nothing is to be said of the present schema.
  CHECK_FALSE(contains(resumed(), "schema"));
  make_schema1(path);
  const std::string before = base::read_file(path / "run.db").value();
  CHECK(contains(resumed(),
                 (path / "run.db").string() +
                     " is of schema 1 and stays so: the run is complete, and only what goes on is "
                     "brought to schema 2; commands that read take it as it is\n"));
  CHECK(base::read_file(path / "run.db").value() == before);
  CHECK_FALSE(fs::exists(path / "run.db.schema1"));
}

TEST_CASE("a file of version 1 is refused by train, upgraded, and then read") {
  commands f;
  const std::string file = (f.folder.path() / "mine.yaml").string();
  REQUIRE(base::write_file_atomic(file,
                                  "quern_config: 1\n"
                                  "run: {folder: " +
                                      (f.folder.path() / "run").string() +
                                      "}\n"
                                      "stage: search\n"
                                      "observe:\n"
                                      "  panel: true  # refused later\n"));
  const finished refused = f.run({"train", file});
  CHECK(refused.code == 2);
  CHECK(contains(refused.output,
                 file + ": line 1: quern_config is 1, this build reads 2; line 5: observe.panel is "
                        "called observe.evaluation_set now; change these, or type `quern config "
                        "upgrade FILE`, which does it"));
  // A copy of something else is what an upgrade that failed may have left; one that is equal is
  // not.
  const std::string copy = file + ".before-upgrade", before = base::read_file(file).value();
  REQUIRE(base::write_file_atomic(copy, "of somebody"));
  const finished kept = f.run({"config", "upgrade", file});
  CHECK(kept.code != 0);
  CHECK(contains(kept.output, copy + " is there"));
  CHECK(base::read_file(file).value() == before);
  REQUIRE(base::write_file_atomic(copy, before));
  const finished upgraded = f.run({"config", "upgrade", file});
  CHECK(upgraded.code == 0);
  CHECK_FALSE(fs::exists(copy));
  CHECK(contains(upgraded.output, file + ": line 1: quern_config is 2\n"));
  CHECK(contains(base::read_file(file).value(), "  evaluation_set: true  # refused later\n"));
  // Read now: what is refused is what it says.
  const finished read = f.run({"train", file});
  CHECK(read.code == 2);
  CHECK(contains(read.output, "observe.evaluation_set is true, but stage search"));
  CHECK(f.run({"config", "upgrade", file}).code == 4);
  const finished none = f.run({"config", "upgrade", file + ".none"});
  CHECK(none.code != 0);
  CHECK(contains(none.output, file + ".none"));
  CHECK_FALSE(fs::exists(f.folder.path() / "run"));
}
