// A whole run through the commands that a person types.
#include "base/file.hpp"
#include "base/json.hpp"
#include "e2e/run_fixture.hpp"
#include "support/test.hpp"

using namespace quern;
using namespace quern::test;
namespace fs = std::filesystem;

TEST_CASE("train, status, sample and export do what they say") {
  auto folder = base::temp_folder::make();
  REQUIRE(folder);
  const fs::path run = folder->path() / "run";
  const finished trained =
      run_to_end(train_command(run, 2, {"observe.panel_train=4", "observe.panel_held_out=2"}),
                 folder->path() / "log");
  CAPTURE(trained.output);
  REQUIRE(trained.code == 0);
  check_law(run);
  CHECK(version_of(run) == 2);
  CHECK(trained.output.find("mean reward, held out") != std::string::npos);
  CHECK(fs::exists(run / "panel.json"));

  const finished status =
      run_to_end({program("quern"), "status", run.string(), "--json"}, folder->path() / "status");
  REQUIRE(status.code == 0);
  const auto parsed = base::parse_json(status.output);
  REQUIRE(parsed);
  CHECK((*parsed)["running"] == false);
  CHECK((*parsed)["ledger"]["law_holds"] == true);

  REQUIRE(base::write_file_atomic(folder->path() / "prompt", "cpp-avx2\ndef forward(x):\n"));
  const finished sampled =
      run_to_end({program("quern"), "sample", run.string(), "--prompt",
                  (folder->path() / "prompt").string(), "--n", "2", "--max-tokens", "8", "--json"},
                 folder->path() / "sample");
  CAPTURE(sampled.output);
  REQUIRE(sampled.code == 0);
  const auto line = base::parse_json(sampled.output.substr(0, sampled.output.find('\n')));
  REQUIRE(line);
  CHECK((*line)["token_ids"].size() == (*line)["log_probs"].size());

  const finished exported =
      run_to_end({program("quern"), "export", run.string(), (folder->path() / "model").string()},
                 folder->path() / "export");
  CHECK(exported.code == 0);
  CHECK(fs::exists(folder->path() / "model/model.safetensors"));

  const finished again =
      run_to_end({program("quern"), "resume", run.string()}, folder->path() / "again");
  CHECK(again.code == 4);
}
